"""Which cores what is measured gets, and what keeps them awake."""

import os

from bench.load.awake import awake
from bench.place import cores, load_cores, proxy_cores, sharing


def test_what_shares_cores_has_all_of_them() -> None:
    apart = (load_cores(), proxy_cores(2))
    with sharing(cores()[-1:]):
        assert load_cores() == proxy_cores(2) == cores()[-1:]
    assert (load_cores(), proxy_cores(2)) == apart


def test_each_core_is_kept_awake_by_what_every_other_task_preempts() -> None:
    with awake() as turning:
        pids = [each.popen.pid for each in turning]
        assert [os.sched_getaffinity(pid) for pid in pids] == [{core} for core in cores()]
        assert {os.sched_getscheduler(pid) for pid in pids} == {os.SCHED_IDLE}
    assert all(each.popen.poll() is not None for each in turning)
