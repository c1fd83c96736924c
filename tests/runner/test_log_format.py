"""`--log-format` of the real commands."""

import json
import subprocess
from pathlib import Path

import pytest
from collector_process import ROLLCALL, environment


@pytest.mark.parametrize("form", ["human", "json"])
def test_the_log_of_a_service_has_the_form_that_is_asked_for(tmp_path: Path, form: str) -> None:
    """The first line says the limits in force."""
    own = ["--listen", "127.0.0.1:0", "--collector", "http://127.0.0.1:9", "--spool", str(tmp_path)]
    command = [ROLLCALL, "proxy", *own, "--log-format", form]
    proxy = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment())
    assert proxy.stderr
    line = proxy.stderr.readline()
    proxy.terminate()
    proxy.communicate(timeout=60)
    said = json.loads(line)["message"] if form == "json" else line.partition("rollcall_proxy.service ")[2]
    assert said.startswith("mode enforce; limits: ")


def test_a_form_that_is_none_is_refused() -> None:
    done = subprocess.run([ROLLCALL, "collector", "--log-format", "xml"], capture_output=True, text=True, check=False)
    assert (done.returncode, "--log-format = 'xml'" in done.stderr) == (2, True)
