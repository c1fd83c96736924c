"""Rollcall on the real NeMo Gym: `python tests/gym/demo.py` (or `make demo-gym`).

One `gym eval run` of 12 rollouts with a model endpoint that refuses some calls, under `rollcall run`; then the
endpoint is repaired and the run resumed.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import install
from gymlab import model, sidecar, tasks
from gymlab.environment import variables, working_folder
from gymlab.http import free_port
from gymlab.model import Model
from gymlab.processes import allow_many_files

VERSIONS = ("0.7.0", "0.4.0")
AGENT = "simple_agent"
FOLDER = install.PROJECT / ".demo" / "gym"


def gym_environment() -> tuple[str, Path]:
    """The newest version that a Python on this machine fits, installed."""
    reasons = []
    for version in VERSIONS:
        print(f"NeMo Gym {version}: its environment is installed the first time (1.4 GB) ...", flush=True)
        try:
            return version, install.environment(version).resolve()
        except install.InstallError as error:
            reasons.append(str(error))
    raise SystemExit("\n".join(reasons))


def evaluation(home: Path, endpoint: Model, source: Path) -> list[str]:
    """Serving and collecting in one command."""
    gym = [str(home / "bin" / "python"), str(home / "bin" / "gym"), "eval", "run"]
    dataset = f'{{name: demo, type: train, license: "Apache 2.0", jsonl_fpath: {source}}}'
    served = ["--config", "servers.yaml", "--model", "m", "--model-url", f"{endpoint.url}/v1", "--model-api-key", "x"]
    data = ["--split", "train", f"++{AGENT}.responses_api_agents.{AGENT}.datasets=[{dataset}]"]
    output = ["--num-repeats", "4", "--output", str(FOLDER / "out" / "rollouts.jsonl")]
    head = ["+head_server.host=127.0.0.1", f"+head_server.port={free_port()}"]
    place = ["+skip_venv_if_present=true", f"+uv_venv_dir={FOLDER / 'work'}", *head]
    return [*gym, *served, *data, *output, *place]


def rollcall_run(command: list[str], home: Path, cwd: Path) -> int:
    records = ["--database", f"sqlite:///{FOLDER / 'records.sqlite3'}", "--spool", str(FOLDER / "spool")]
    full = [sidecar.COMMAND, "run", *records, "--", *command]
    print(f"\n$ rollcall run -- gym {' '.join(command[2:])}", flush=True)
    return subprocess.run(full, cwd=cwd, env=variables(home), check=False).returncode


def main() -> int:
    version, home = gym_environment()
    shutil.rmtree(FOLDER, ignore_errors=True)
    work = working_folder(FOLDER / "work", home)
    source = tasks.write(tasks.tasks(3, AGENT), FOLDER / "in.jsonl")
    (FOLDER / "out").mkdir()
    allow_many_files()
    endpoint = model.start(FOLDER)
    try:
        endpoint.plan(every=4, turn="opening")
        command = evaluation(home, endpoint, source)
        first = rollcall_run(command, home, work)
        endpoint.plan()
        second = rollcall_run([*command, "--resume"], home, work)
    finally:
        endpoint.process.end()
    print(f"\nGym {version}: exit status {first} with every fourth opening call refused, {second} after the resume.")
    return 0 if (first, second) == (3, 0) else 1


if __name__ == "__main__":
    sys.exit(main())
