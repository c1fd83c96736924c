"""Rollcall's proxy: a listener for each of Gym's servers, through which all of their calls pass.

One exchange's way: `listeners` takes it in, `owners` says whose it is, `forwarding` passes it on by way of
`upstream` and has it read by `inspecting`, `recording` tags what did not end well, `sender` has that stored; an
outermost `/run` is answered by `outermost`, an outermost `/aggregate_metrics` by `metrics`.
"""
