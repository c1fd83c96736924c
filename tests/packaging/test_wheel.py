"""What is published: the files of sdist and wheel, and the wheel installed in clean environments."""

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from environments import PYTHONS, Environment, made, outside, python

if TYPE_CHECKING:
    from conftest import Built

PROJECT = Path(__file__).parents[2]
PACKAGES = ("collector/rollcall_collector", "proxy/rollcall_proxy", "runner/rollcall_runner", "runner/rollcall_attach")
Installed = tuple[Environment, set[Path], set[str]]
UV = str(Path(sys.executable).parent / "uv")


def contents(wheel: Path) -> dict[str, bytes]:
    """Each file of a wheel."""
    with zipfile.ZipFile(wheel) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def sources() -> set[str]:
    """The packages' files, by the names that they have once installed."""
    found = set()
    for package in map(PROJECT.joinpath, PACKAGES):
        inside = [path for path in package.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        found |= {str(path.relative_to(package.parent)) for path in inside}
    return found


def test_a_wheel_from_the_sdist_is_the_wheel_from_the_sources(built: "Built") -> None:
    """Byte for byte: whoever builds from what is published gets what is published."""
    assert contents(built.wheel) == contents(built.direct)


def test_a_wheel_holds_the_packages_the_pth_and_nothing_else(built: "Built") -> None:
    """The page's files and the marks of types too; no test."""
    own = {name for name in contents(built.wheel) if ".dist-info/" not in name}
    assert own == sources() | {"rollcall_attach.pth"}


def test_an_sdist_holds_sources_and_documents_and_no_tests(built: "Built") -> None:
    """A folder of the tests has a package's name."""
    with tarfile.open(built.sdist) as opened:
        tops = {name.split("/", 2)[1] for name in opened.getnames()}
    assert tops == {
        *("collector", "proxy", "runner", "docs", "README.md", "CHANGELOG.md", "LICENSE", "requirements.lock"),
        *("pyproject.toml", "PKG-INFO", ".gitignore"),
    }


@pytest.fixture(scope="module", params=PYTHONS)
def installed(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, built: "Built") -> Installed:
    """The wheel in a clean environment; the files that were there before, and the modules that Python loaded."""
    found = python(request.param)
    if found is None:
        pytest.skip(f"no Python {request.param} here, and uv has one from where this machine may not reach")
    environment = made(found, tmp_path_factory.mktemp("environment") / request.param, UV)
    files, modules = environment.files(), environment.modules()
    environment.run("pip", "install", "--quiet", "--no-deps", "--no-index", str(built.wheel))
    return environment, files, modules


def test_the_wheel_runs_with_what_is_locked(installed: Installed, built: "Built") -> None:
    """Nothing is missing for this Python, and the command is there."""
    environment, _, _ = installed
    assert environment.run("pip", "check") == "No broken requirements found.\n"
    version = built.wheel.name.split("-")[1]
    assert environment.run("rollcall", "--version").splitlines()[0] == f"rollcall {version}"
    assert environment.run("rollcall", "config", "proxy").splitlines()[:3] == ["file: none", "", "proxy"]


def test_nothing_is_loaded_unless_the_variable_is_set(installed: Installed) -> None:
    """The .pth that every Python of the environment reads loads no module of Rollcall's, and none that it needs."""
    environment, _, modules = installed
    assert environment.modules() == environment.modules(ROLLCALL_PROXY="") == modules
    switched_on = environment.modules(ROLLCALL_PROXY="http://127.0.0.1:9")
    assert "rollcall_attach.startup" in switched_on


def test_uninstalling_leaves_nothing(installed: Installed) -> None:
    """Also of what has been run, and hooked."""
    environment, files, modules = installed
    environment.run("rollcall", "attach-path", ROLLCALL_PROXY="http://127.0.0.1:9")
    environment.run("pip", "uninstall", "--quiet", "--yes", "gym-rollcall")
    assert environment.files() == files
    assert environment.modules(ROLLCALL_PROXY="http://127.0.0.1:9") == modules


def test_uvx_runs_the_demo_from_the_wheel(built: "Built", tmp_path: Path) -> None:
    """The whole job, from nothing but the file and an index."""
    command = [UV, "tool", "run", "--quiet", "--python", sys.executable, "--from", str(built.wheel)]
    done = subprocess.run(
        [*command, "rollcall", "demo", "--output", str(tmp_path / "demo")],
        cwd=tmp_path,
        env=outside() | {"XDG_STATE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("Resume: exit status 0 (0 says complete).\n")
