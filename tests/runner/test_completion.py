"""`rollcall completion` in a real bash, and what other shells are given; `rollcall --version`."""

import re
import shutil
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from collector_process import ROLLCALL
from rollcall_collector.store.schema import SCHEMA_VERSION
from rollcall_runner.cli import main
from rollcall_runner.version_text import GYM

PROJECT = Path(__file__).parents[2]
COMPLETE = """
source "$2"
COMP_LINE="$1" COMP_POINT=${#1} COMP_WORDS=($1) COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
[[ "$1" == *' ' ]] && COMP_WORDS+=('') && COMP_CWORD=$((COMP_CWORD + 1))
function=$(complete -p rollcall | sed 's/.*-F \\([^ ]*\\).*/\\1/')
$function rollcall "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the command prints for bash."""
    printed = subprocess.run([ROLLCALL, "completion", "bash"], capture_output=True, timeout=60, check=True).stdout
    path = tmp_path_factory.mktemp("completion") / "rollcall.bash"
    path.write_bytes(printed)
    return path


def completed(script: Path, line: str, folder: Path) -> set[str]:
    """What bash offers behind a line."""
    command = ["bash", "--norc", "-c", COMPLETE, "bash", line, str(script)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=True)
    assert done.stderr == ""
    return {word.strip() for word in done.stdout.splitlines()}


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("rollcall ga", {"gate"}),
        ("rollcall config ", {"collector", "proxy", "run", "attach"}),
        ("rollcall proxy --first", {"--first-byte-timeout"}),
        ("rollcall run --retry", {"--retry", "--retry-pause"}),
        ("rollcall proxy --mode ", {"enforce", "observe"}),
        ("rollcall failures --group t", {"task"}),
        ("rollcall completion ", {"bash", "zsh", "fish"}),
        ("rollcall collector --rules m", {"mine.toml"}),
        ("rollcall gate --junit m", {"mine.toml"}),
    ],
)
def test_bash_completes_verbs_flags_words_and_files(script: Path, tmp_path: Path, line: str, offered: set[str]) -> None:
    """From the command's own parser and settings."""
    (tmp_path / "mine.toml").write_text("")
    assert completed(script, line, tmp_path) == offered


@pytest.mark.parametrize(("shell", "flag"), [("bash", "--drain-timeout"), ("zsh", "--drain-timeout"), ("fish", "-l")])
def test_each_shell_can_read_what_it_is_given(
    shell: str, flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By the shell itself where it is there."""
    assert main(["completion", shell]) == 0
    text = capsys.readouterr().out
    assert flag in text
    assert "drain-timeout" in text
    (tmp_path / "script").write_text(text)
    if shutil.which(shell) is None:
        pytest.skip(f"no {shell} here to read it")
    subprocess.run([shell, "-n", str(tmp_path / "script")], check=True, timeout=60)


def test_the_version_names_the_parts(capsys: pytest.CaptureFixture[str]) -> None:
    """The first line is the program's alone."""
    with pytest.raises(SystemExit) as ended:
        main(["--version"])
    first, *lines = capsys.readouterr().out.splitlines()
    assert (ended.value.code, first) == (0, f"rollcall {version('gym-rollcall')}")
    parts = dict(re.split(r" {2,}", line.strip()) for line in lines)
    assert parts["aiohttp"] == version("aiohttp")
    assert parts["Python"].startswith(".".join(map(str, sys.version_info[:3])))
    assert parts["database schema"] == str(SCHEMA_VERSION)
    assert parts["NeMo Gym"] == ", ".join(GYM)


def test_the_versions_of_gym_are_those_that_are_tested() -> None:
    """The Makefile makes an environment for each."""
    (listed,) = re.findall(r"^GYM_VERSIONS := (.*)$", (PROJECT / "Makefile").read_text(), re.MULTILINE)
    assert listed.split() == list(GYM)
