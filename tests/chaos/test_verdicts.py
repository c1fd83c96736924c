"""The comparison finds each way in which files can be wrong, and nothing where they are right."""

from chaos_story import AGENT, EXPECTED, LIMIT_S, Story, failures, result


def texts(found: object) -> str:
    return str(found)


def test_a_result_whose_calls_all_ended_well_is_right() -> None:
    """A call that failed and was repeated with success has recovered."""
    story = Story()
    story.call("policy_model", said="http_status", ok=False)
    story.call("policy_model")
    story.ends()
    assert story.against([result()]) == []


def test_a_result_is_wrong_where_a_server_said_that_it_failed() -> None:
    """Its caller swallowed it: 200, and the body says it failed."""
    story = Story()
    story.call("policy_model", said="body_failure", ok=True)
    story.ends()
    [found] = story.against([result()])
    assert found == ("wrong", "steady_agent 3-0 attempt 0: a result, though policy_model had failed")


def test_a_result_of_another_execution_or_with_another_reward_is_wrong() -> None:
    story = Story()
    story.ends()
    assert "none of its own" in texts(story.against([result(execution="exec-000000000000")]))
    assert "reward 0.5" in texts(story.against([result(reward=0.5)]))


def test_a_rollout_in_no_file_is_lost_and_one_that_is_there_twice_is_doubled() -> None:
    story = Story()
    story.ends()
    assert [each.kind for each in story.against()] == ["lost"]
    assert [each.kind for each in story.against([result(), result()])] == ["doubled"]
    marked = result(_ng_failure_class="agent_timeout")
    assert "in both files" in texts(story.against([result()], [marked]))


def test_a_failure_has_the_root_cause_that_the_server_wrote_down() -> None:
    story = Story()
    story.call("policy_model", said="http_status", ok=False)
    story.ends("error")
    right, wrong = story.against([], failures()), story.against([], failures("judge_model"))
    assert [each.kind for each in right] == ["lost"], "two attempts are left"
    assert "its root cause is ('judge_model', 'http_status')" in texts(wrong)


def test_the_innermost_of_the_calls_that_failed_is_the_cause_and_then_the_earliest() -> None:
    story = Story()
    story.call("arithmetic", said="http_status", ok=False, depth=1)
    story.call("judge_model", said="http_status", ok=False, key="later")
    story.ends("error")
    assert "wrong" not in texts(story.against([], failures("judge_model")))
    assert "wrong" in texts(story.against([], failures("arithmetic")))


def test_a_failure_is_invented_where_the_server_was_well() -> None:
    story = Story()
    story.call("policy_model", ok=False)
    story.ends("error")
    assert "was well and answered" in texts(story.against([], failures()))


def test_a_failure_has_a_reason_where_the_server_was_killed_meanwhile() -> None:
    story = Story()
    story.call("policy_model", ok=False, dies=True)
    story.happens("kill", "policy_model")
    story.ends("error")
    assert [each.kind for each in story.against([], failures("policy_model", "peer_drop"))] == ["lost"]


def test_a_failure_is_invented_where_nothing_failed_and_where_the_agent_was_well() -> None:
    story = Story()
    story.ends()
    story.received()
    assert "no call had failed" in texts(story.against([], failures()))
    unanswered = failures(AGENT, "peer_drop", names="nobody")
    assert "the agent's, which was well" in texts(story.against([], unanswered))


def test_a_failure_of_an_agent_that_was_killed_is_its_own_or_of_what_had_failed_before() -> None:
    story = Story()
    story.call("policy_model", said="http_status", ok=False)
    story.happens("kill", "agent")
    story.received()
    for server, right in ((AGENT, True), ("policy_model", True), ("judge_model", False)):
        found = story.against([], failures(server, "peer_drop", names="nobody"))
        assert ("wrong" not in texts(found)) is right, server


def test_a_failure_of_an_agent_and_of_a_model_that_are_killed_together_is_of_either() -> None:
    story = Story()
    story.asks("policy_model")
    story.happens("kill", "policy_model")
    story.happens("kill", "agent")
    story.received()
    for server, right in ((AGENT, True), ("policy_model", True), ("judge_model", False)):
        found = story.against([], failures(server, "peer_drop", names="nobody"))
        assert ("wrong" not in texts(found)) is right, server


def test_a_failure_that_its_caller_did_not_live_to_hear_of_may_be_the_cause_or_the_callers_death() -> None:
    """The judge had written its error down when who had asked it was killed: nobody knows what came first."""
    story = Story()
    judged = story.asks("judge_model", key="judged")
    story.note("said", call=judged, what="http_status")
    story.happens("kill", "arithmetic")
    story.call("arithmetic", ok=False, dies=True, depth=1)
    story.ends("error")
    for server, what, right in (
        ("judge_model", "http_status", True),
        ("arithmetic", "peer_drop", True),
        ("policy_model", "http_status", False),
    ):
        assert ("root cause" not in texts(story.against([], failures(server, what)))) is right, server


def test_a_failure_of_an_agent_that_was_killed_while_it_asked_again_is_of_either() -> None:
    """What had failed has not recovered."""
    story = Story()
    story.call("policy_model", said="http_status", ok=False)
    story.asks("policy_model")
    story.happens("kill", "agent")
    story.received()
    for server, right in ((AGENT, True), ("policy_model", True), ("judge_model", False)):
        found = story.against([], failures(server, names="nobody"))
        assert ("wrong" not in texts(found)) is right, server


def test_a_failure_of_an_agent_that_was_killed_while_its_model_hung_is_of_either() -> None:
    story = Story()
    story.asks("policy_model")
    story.waits(LIMIT_S)
    story.happens("kill", "agent")
    story.received()
    assert "wrong" not in texts(story.against([], failures("policy_model", "timeout", names="nobody")))


def test_what_is_omitted_needs_a_server_that_was_being_shut_down() -> None:
    for what, is_right in (("term", True), ("kill", False)):
        story = Story()
        story.happens(what, "arithmetic")
        story.received(omitted=True)
        assert ("omitted" not in texts(story.against())) is is_right, what


def test_a_row_of_a_rollout_that_nobody_expected_is_one_too_many() -> None:
    story = Story()
    story.ends()
    found = story.against([result(), result() | EXPECTED | {"_ng_task_index": 9}])
    assert "doubled" in texts(found)
