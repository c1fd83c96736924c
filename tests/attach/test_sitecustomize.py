"""The file on PYTHONPATH: what every Python process gets to see of Rollcall, which is nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path

import pytest
from attachlab import ATTACH, FAKE_GYM, LIBRARIES, FakeProxy, dead_url, run, run_gym

OLD = [version for version in ("3.6", "3.7", "3.8", "3.9", "3.10") if shutil.which(f"python{version}")]
LOADED = "import json, sys; print(json.dumps(sorted(sys.modules)))"


def _old_pythons() -> list[str]:
    """Interpreters on PATH, and pyenv's where it is there."""
    found = [path for version in OLD if (path := shutil.which(f"python{version}"))]
    if shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True, check=False).stdout.strip()
        found += [str(path) for path in sorted(Path(root).glob("versions/3.*/bin/python"))]
    return [path for path in found if _runs(path)]


def _runs(path: str) -> bool:
    return subprocess.run([path, "-c", ""], capture_output=True, check=False).returncode == 0


def test_an_unattached_interpreter_loads_nothing_more() -> None:
    """Without ROLLCALL_PROXY the file adds itself and no other module."""
    bare = run(LOADED, PYTHONPATH="")
    loaded = run(LOADED)
    assert set(json.loads(loaded.out)) - set(json.loads(bare.out)) <= {"sitecustomize"}
    assert loaded.err == ""


def test_a_process_that_is_not_gyms_is_untouched_while_the_proxy_is_dead() -> None:
    """Same modules, same output and the same exit status, at once."""
    code = f"{LOADED}; sys.stderr.write('mine'); sys.exit(7)"
    bare, attached = run(code, PYTHONPATH=""), run(code, ROLLCALL_PROXY=dead_url())
    assert set(json.loads(attached.out)) - set(json.loads(bare.out)) <= {"sitecustomize"}
    assert (attached.status, attached.err) == (bare.status, bare.err) == (7, "mine")


def test_a_grader_of_model_written_code_gives_the_same_grade() -> None:
    """Code that reads stdin, forks, uses httpx' name and fails an assertion ends as it does unattached."""
    code = (
        "import os, subprocess, sys\n"
        "inner = subprocess.run([sys.executable, '-c', 'print(6 * 7)'], capture_output=True, text=True)\n"
        "print(inner.stdout, inner.stderr)\n"
        "pid = os.fork()\n"
        "if pid == 0: os._exit(3)\n"
        "print(os.WEXITSTATUS(os.waitpid(pid, 0)[1]))\n"
        "sys.modules['httpx'] = None\n"
        "assert 1 == 2, 'wrong answer'\n"
    )
    started = time.monotonic()
    bare, attached = run(code, PYTHONPATH=""), run(code, ROLLCALL_PROXY=dead_url())
    assert (attached.status, attached.out, attached.err) == (bare.status, bare.out, bare.err)
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("executable", _old_pythons() or [pytest.param("", marks=pytest.mark.skip("no other Python"))])
def test_every_python_3_runs_it_in_silence(executable: str) -> None:
    """Whatever interpreter inherits the variables: it parses, installs the hook and says nothing."""
    code = "import json, sitecustomize; print(sitecustomize.__file__)"
    done = run(code, executable=executable, ROLLCALL_PROXY=dead_url())
    assert (done.status, done.err) == (0, "")
    assert done.out.strip() == str(ATTACH / "path" / "sitecustomize.py")


def test_another_sitecustomize_further_along_runs_once(tmp_path: Path) -> None:
    """It runs under its own name, and stays what `sitecustomize` means afterwards."""
    (tmp_path / "sitecustomize.py").write_text("import sys; print('mine', __name__, __file__); own = 1\n")
    for env in ({}, {"ROLLCALL_PROXY": dead_url()}):
        done = run("import sitecustomize; print(sitecustomize.own)", path=(tmp_path, ATTACH / "path"), **env)
        assert done.out.splitlines() == [f"mine sitecustomize {tmp_path / 'sitecustomize.py'}", "1"]
        assert done.err == ""


def test_what_another_sitecustomize_raises_is_its_own_affair(tmp_path: Path) -> None:
    """Python reports it in the words it would have used without Rollcall."""
    (tmp_path / "sitecustomize.py").write_text("raise ValueError('theirs')\n")
    attached = run("print('on')", path=(tmp_path,), ROLLCALL_PROXY=dead_url())
    bare = run("print('on')", PYTHONPATH=str(tmp_path))
    assert (attached.out, attached.err, attached.status) == (bare.out, bare.err, bare.status)
    assert "theirs" in bare.err


def test_a_hooked_module_keeps_its_loader(proxy: FakeProxy) -> None:
    """Type, source and resources of the hooked module are found as ever."""
    code = (
        "import importlib.util, inspect, nemo_gym.server_utils as m\n"
        "print(type(m.__loader__).__name__, 'exec_module' in vars(m.__loader__), len(inspect.getsource(m)) > 100)\n"
    )
    assert run_gym(code, ROLLCALL_PROXY=proxy.url).out.split() == ["SourceFileLoader", "False", "True"]


@pytest.mark.parametrize(
    "first", ["httpx", "nemo_gym.rollout_collection", "nemo_gym.cli.eval", "nemo_gym.server_utils"]
)
def test_modules_are_hooked_in_whatever_order_they_come(first: str, proxy: FakeProxy) -> None:
    """httpx before Gym or after it; Gym's own in any order."""
    code = (
        f"import {first}, httpx, nemo_gym.cli.eval, nemo_gym.rollout_collection as r, nemo_gym.server_utils as s\n"
        "hooked = [httpx.HTTPTransport.handle_request, httpx.AsyncHTTPTransport.handle_async_request,\n"
        "  nemo_gym.cli.eval.collect_rollouts, nemo_gym.cli.eval.e2e_rollout_collection,\n"
        "  r.RolloutCollectionHelper.run_from_config, s.ServerClient._build_server_base_url]\n"
        "print(all(getattr(f, '__rollcall__', False) for f in hooked))\n"
    )
    assert run_gym(code, ROLLCALL_PROXY=proxy.url).out.strip() == "True"


def test_httpx_stays_as_it_is_outside_of_gym(proxy: FakeProxy) -> None:
    """A program that uses httpx and not Gym is none of Rollcall's business."""
    code = "import httpx, sys; handle = httpx.HTTPTransport.handle_request\n"
    code += "print(hasattr(handle, '__rollcall__'), 'rollcall_attach' in sys.modules)"
    assert run(code, path=(LIBRARIES,), ROLLCALL_PROXY=proxy.url).out.split() == ["False", "False"]


def test_importing_a_hooked_module_again_wraps_nothing_twice(proxy: FakeProxy) -> None:
    """A reload is hooked once more, and each function still leads to Gym's own in one step."""
    code = (
        "import importlib, uvicorn.config, nemo_gym.server_utils as s\n"
        "importlib.reload(s)\n"
        "steps = s.ServerClient.load_from_global_config.__func__, uvicorn.config.Config.load\n"
        "print([hasattr(step.__wrapped__, '__wrapped__') for step in steps])\n"
    )
    assert run_gym(code, ROLLCALL_PROXY=proxy.url).out.strip() == "[False, False]"


def test_the_attach_comes_from_beside_the_file_and_not_from_the_environment(proxy: FakeProxy, tmp_path: Path) -> None:
    """A copy of the folder elsewhere is whole: nothing of it needs gym-rollcall to be installed."""
    copy = tmp_path / "elsewhere"
    shutil.copytree(ATTACH, copy)
    code = "import sys, nemo_gym.server_utils; print(sys.modules['rollcall_attach'].__file__)"
    done = run(code, PYTHONPATH=f"{copy / 'path'}:{FAKE_GYM}:{LIBRARIES}", ROLLCALL_PROXY=proxy.url)
    assert done.out.strip() == str(copy / "__init__.py")


def test_an_attach_that_cannot_be_loaded_stops_a_server_with_4(tmp_path: Path) -> None:
    """An unattached server would hide its failures."""
    copy = tmp_path / "elsewhere"
    shutil.copytree(ATTACH / "path", copy / "path")
    done = run(
        "import nemo_gym.server_utils", PYTHONPATH=f"{copy / 'path'}:{FAKE_GYM}:{LIBRARIES}", ROLLCALL_PROXY=dead_url()
    )
    assert done.status == 4
    assert len(done.err.splitlines()) == 1


@pytest.mark.parametrize("text", ["long", "0", "-1", "inf", "nan"])
def test_a_variable_that_is_no_time_is_named(text: str, proxy: FakeProxy) -> None:
    """The process stops, as with any attach that does not work."""
    done = run_gym("import nemo_gym.server_utils", ROLLCALL_PROXY=proxy.url, ROLLCALL_ATTACH_TIMEOUT=text)
    assert done.status == 4
    assert f"ROLLCALL_ATTACH_TIMEOUT = '{text}' is no number of seconds above 0" in done.err


def test_every_fitting_is_hooked_and_every_hook_has_one() -> None:
    """The file cannot import the table, so both name the modules."""
    code = "import sitecustomize as s; from rollcall_attach.fitting import FITTINGS\n"
    code += "print([*s.HOOKED, *s.HOOKED_IN_GYM] == list(FITTINGS))"
    assert run(code, ROLLCALL_PROXY=dead_url()).out.strip() == "True"


def test_a_ray_worker_finds_the_attach_by_name() -> None:
    """Where the variables have come along, and without anything installed; nobody else is given it."""
    code = "import importlib.util as u; spec = u.find_spec('rollcall_attach'); print(spec and spec.origin)"
    assert run(code, ROLLCALL_PROXY=dead_url()).out.strip() == str(ATTACH / "__init__.py")
    assert run(code).out.strip() == "None"


def test_a_ray_worker_is_never_ended_by_an_attach_that_does_not_work(tmp_path: Path) -> None:
    """The task runs all the same; what is wrong is said."""
    copy = tmp_path / "elsewhere"
    shutil.copytree(ATTACH / "path", copy / "path")
    code = "import nemo_gym.server_utils; print('on')"
    path = f"{copy / 'path'}:{FAKE_GYM}:{LIBRARIES}"
    done = run(code, PYTHONPATH=path, ROLLCALL_PROXY=dead_url(), RAY_JOB_ID="01000000")
    assert (done.status, done.out) == (0, "on\n")
