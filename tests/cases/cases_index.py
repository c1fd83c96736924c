"""Problems that people reported in public, and the tests of this folder that act them out."""

REPORTS: dict[str, tuple[str, ...]] = {
    "NVIDIA-NeMo/Gym#2017": (
        "test_one_run_answered_500_is_one_failure_row_and_the_others_finish",
        "test_a_status_that_says_that_nothing_ran_is_no_error_of_the_agents",
    ),
    "scaleapi/SWE-bench_Pro-os#78": (
        "test_a_trajectory_that_ended_on_a_rate_limit_is_no_wrong_answer",
        "test_a_rate_limit_that_the_next_try_got_over_is_a_success",
    ),
    "NVIDIA-NeMo/Gym#2552": (
        "test_a_session_that_could_not_be_seeded_or_verified_is_no_zero",
        "test_a_session_that_could_be_seeded_after_refused_connections_is_clean",
        "test_a_server_that_comes_up_within_its_window_costs_nothing",
        "test_a_close_that_fails_after_a_good_verdict_fails_nothing",
    ),
    "NVIDIA-NeMo/nemo-platform#1295": (
        "test_a_trial_without_any_model_call_is_warned_of",
        "test_a_trial_without_any_model_call_fails_where_that_is_set",
        "test_an_agent_whose_calls_are_never_seen_has_not_failed_to_make_them",
    ),
    "NVIDIA-NeMo/Gym#1206": ("test_what_the_model_ran_out_of_is_its_outcome_and_what_failed_is_not",),
    "PrimeIntellect-ai/verifiers#1725": (
        "test_a_rollout_withheld_for_a_tools_status_comes_back_untouched",
        "test_a_tools_status_that_the_model_is_meant_to_see_is_kept_and_counted",
        "test_a_tool_that_refuses_its_connection_fails_whatever_the_model_may_see",
    ),
    "marin-community/marin#8947": (
        "test_an_agent_that_hit_its_own_deadline_keeps_the_score_it_was_given",
        "test_no_share_of_failures_is_accepted_unless_that_is_set",
    ),
    "NVIDIA-NeMo/Gym#2527": (
        "test_retries_are_the_callers_own_and_so_is_their_pace",
        "test_a_rollout_that_tries_for_ever_shows_as_stalled_meanwhile",
    ),
    "NVIDIA-NeMo/Gym#2610": (
        "test_a_failed_call_that_names_nobody_is_nobodys",
        "test_an_id_that_nobody_knows_makes_no_rollout",
        "test_the_prefix_of_token_capture_names_its_rollout",
        "test_an_id_that_two_rollouts_share_names_neither",
        "test_an_agent_whose_inner_calls_nobody_sees_is_said",
    ),
    "NVIDIA-NeMo/Gym#2554": (
        "test_a_run_sent_again_joins_the_one_that_runs",
        "test_two_callers_of_one_run_get_the_same_answer",
        "test_a_run_that_a_restarted_proxy_lost_is_a_dispatch_of_its_own",
    ),
    "NVIDIA-NeMo/Gym#3491": (
        "test_two_nested_runs_are_one_dispatch",
        "test_an_episodes_failure_is_answered_with_the_flat_row",
        "test_an_inner_run_that_failed_is_answered_as_it_is_and_fails_the_episode",
    ),
    "NVIDIA-NeMo/Gym#2216": (
        "test_a_refused_connection_is_answered_and_never_dropped",
        "test_a_proxy_that_dies_ends_the_run_with_4",
    ),
    "NVIDIA-NeMo/RL#3470": (
        "test_a_model_that_never_answers_fails_one_rollout_alone",
        "test_a_rollout_that_is_parked_is_running_and_not_missing",
        "test_a_rollout_that_is_open_for_long_shows_as_stalled",
    ),
    "marin-community/marin#7173": (
        "test_the_limits_are_longer_than_any_healthy_generation",
        "test_only_a_limit_that_was_set_ends_a_long_generation",
        "test_a_504_of_a_servers_own_is_no_limit_of_the_proxys",
    ),
    "NVIDIA-NeMo/Gym#1367": (
        "test_what_a_killed_agent_answers_is_written_nowhere_and_sent_again",
        "test_one_lone_500_with_that_body_is_an_ordinary_failure",
    ),
    "Continuum-AI-Corp/OrcaReplay#108": (
        "test_a_model_that_cannot_be_reached_is_the_cause_and_not_its_caller",
        "test_a_dispatcher_learns_at_once_what_a_dead_model_did",
    ),
    "BerriAI/litellm#19711": ("test_150_rollouts_that_need_three_more_connections_each_all_end",),
    "gpustack/gpustack#5939": (
        "test_half_a_verification_is_none_however_it_ends",
        "test_half_a_result_is_none_however_it_ends",
    ),
    "BerriAI/litellm#33404": (
        "test_a_failure_inside_a_stream_of_200_is_one",
        "test_a_stream_that_is_reset_is_cut_for_its_caller",
        "test_a_stream_is_not_over_before_its_failure_is_on_record",
    ),
    "yuki-uix/agent-cost-lab#12": (
        "test_no_field_is_invented_that_would_have_an_answer_coded",
        "test_a_coded_answer_passes_untouched_and_is_read_or_said_not_to_be",
    ),
    "lablup/backend.ai#13193": ("test_one_session_lasts_from_seed_to_verification",),
    "timoklimmer/powerproxy-aoai#53": (
        "test_no_body_and_no_length_is_invented",
        "test_a_streamed_answer_has_one_framing",
        "test_a_field_that_connection_names_goes_no_further",
        "test_path_and_query_pass_as_they_were_written",
        "test_a_redirect_is_returned_and_never_followed",
    ),
    "liaohch3/claude-tap#2": (
        "test_a_long_conversation_meets_no_limit_of_the_proxys",
        "test_what_is_too_large_to_be_read_is_said_not_to_be",
        "test_rows_of_200_mb_pass_to_be_aggregated_in_flat_memory",
    ),
    "getsentry/sentry-native#1967": (
        "test_an_interim_answer_is_no_result",
        "test_a_refusal_reaches_a_caller_that_has_not_sent_its_body",
    ),
    "NVIDIA-NeMo/Gym#1555": ("test_a_kept_connection_that_closes_under_a_request_is_said_and_not_tried_again",),
    "istio/istio#9292": (
        "test_a_caller_that_hung_up_is_no_servers_500",
        "test_a_server_that_hung_up_is_no_caller_that_left",
        "test_a_dispatcher_that_hung_up_finds_its_run_again",
    ),
    "NVIDIA-NeMo/Gym#2593": (
        "test_a_task_whose_rollouts_all_failed_is_missed",
        "test_a_task_whose_rollouts_all_failed_shows_in_the_coverage",
        "test_a_rollout_that_left_no_row_is_missing_and_never_present",
    ),
    "UKGovernmentBEIS/inspect_ai#3707": (
        "test_a_score_says_of_how_many_it_is",
        "test_the_same_numbers_whether_resumed_or_not",
    ),
    "NVIDIA-NeMo/Gym#1799": (
        "test_a_diverted_row_is_taken_out_of_what_is_aggregated",
        "test_an_aggregate_that_failed_belongs_to_no_rollout_and_can_be_asked_again",
    ),
    "curie-eng/curie#2007": (
        "test_a_gate_is_green_only_when_all_that_was_expected_is_there",
        "test_a_collector_that_cannot_be_asked_is_4",
        "test_a_collector_that_began_empty_is_not_green",
        "test_a_results_file_that_is_gone_is_not_green",
    ),
    "NVIDIA-NeMo/Gym#2723": (
        "test_three_failures_of_an_older_run_are_no_attempts_of_this_one",
        "test_rows_that_name_another_run_are_no_attempts",
        "test_an_older_runs_numbers_are_not_this_ones",
    ),
    "OpenHands/benchmarks#586": (
        "test_what_failed_on_the_infrastructure_is_sent_again_and_nothing_else",
        "test_a_row_that_was_written_before_its_verdict_is_moved_out",
    ),
    "PrimeIntellect-ai/prime-rl#1589": (
        "test_a_full_disk_of_the_collectors_changes_no_verdict",
        "test_a_database_that_another_process_holds_changes_no_verdict",
        "test_a_collector_killed_before_a_tag_was_stored_gets_it_afterwards",
        "test_an_empty_journal_never_hides_an_older_one",
    ),
    "NVIDIA-NeMo/Gym#2218": (
        "test_the_innermost_failure_is_the_cause",
        "test_how_many_rollouts_share_a_cause_is_said",
    ),
}
