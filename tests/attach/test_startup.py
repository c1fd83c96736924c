"""The .pth of an environment that has gym-rollcall installed."""

from __future__ import annotations

import os
from pathlib import Path

from attachlab import ATTACH, FAKE_GYM, LIBRARIES, FakeProxy, dead_url, run

PTH = (ATTACH.parent / "rollcall_attach.pth").read_text()
STATE = (
    "import os, sys; print([getattr(f, 'rollcall', 0) for f in sys.meta_path].count(True), os.environ['PYTHONPATH'])"
)


def test_the_pth_does_nothing_while_rollcall_is_not_asked_for() -> None:
    """No module loaded, no variable changed, in less than a millisecond."""
    code = f"import sys, time; before = set(sys.modules); t = time.perf_counter()\nexec({PTH!r})\n"
    code += "print(time.perf_counter() - t < 0.001, set(sys.modules) == before)"
    assert run(code, PYTHONPATH="").out.split() == ["True", "True"]


def test_the_pth_hooks_this_process_and_leads_its_children() -> None:
    """The hook is in place, and PYTHONPATH begins with the folder, once, however often it runs."""
    done = run(
        f"exec({PTH!r})\nexec({PTH!r})\n{STATE}", PYTHONPATH=f"{ATTACH.parent}:/other", ROLLCALL_PROXY=dead_url()
    )
    assert done.out.split() == ["1", os.pathsep.join([str(ATTACH / "path"), str(ATTACH.parent), "/other"])]
    assert done.err == ""


def test_the_pth_and_the_file_together_hook_once(proxy: FakeProxy) -> None:
    """A user may set PYTHONPATH in an environment that has gym-rollcall."""
    done = run(f"import sys; sys.path.append({str(ATTACH.parent)!r})\nexec({PTH!r})\n{STATE}", ROLLCALL_PROXY=proxy.url)
    assert done.out.split() == ["1", str(ATTACH / "path")]


def test_a_broken_installation_is_no_reason_to_fail(tmp_path: Path) -> None:
    """The .pth says nothing where the package is not there."""
    done = run(f"exec({PTH!r})\nprint('on')", PYTHONPATH=str(tmp_path), ROLLCALL_PROXY=dead_url(), PYTHONNOUSERSITE="1")
    assert (done.out, done.err) == ("on\n", "")


def test_a_process_hooked_by_the_pth_is_attached_when_it_imports_gym(proxy: FakeProxy) -> None:
    """The same fittings as with the file on PYTHONPATH."""
    code = (
        f"exec({PTH!r})\nimport nemo_gym.server_utils as s\nprint(s.ServerClient._build_server_base_url.__rollcall__)"
    )
    done = run(code, PYTHONPATH=f"{ATTACH.parent}:{FAKE_GYM}:{LIBRARIES}", ROLLCALL_PROXY=proxy.url)
    assert done.out.strip() == "True"
