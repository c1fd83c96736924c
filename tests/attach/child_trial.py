"""Children of an attached process, Python's and Node's, asking base URLs they were given; prints what came, as JSON.

A listener's path names what was asked, and who asked if the base URL did.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys

import nemo_gym.server_utils  # noqa: F401 - attaches
import recorder
import uvloop
from rollcall_attach import children, listeners
from rollcall_attach.owner import holding

LISTENER, ELSEWHERE = recorder.target("listener"), recorder.target("elsewhere")
listeners.remember({"listeners": [{"name": "m", "kind": "x", "url": "http://10.0.0.1:1", "listener": LISTENER}]})
TOKEN = "v1~d-7~x.1_2-3~1~agent~my%2Fagent"
PYTHON = [
    sys.executable,
    "-c",
    "import os, sys, urllib.request as u\n"
    "for url in (*sys.argv[1:], os.environ.get('BASE')):\n"
    "    url and u.urlopen(url if '?' in url else url + '/v1').read()",
]
NODE = [
    shutil.which("node"),
    "-e",
    "for (const url of [process.argv[1], process.env.BASE])"
    " require('http').get(url + '/v1').on('response', answer => answer.resume())",
]
SHELL = f"{sys.executable} -c 'import sys, urllib.request as u; u.urlopen(sys.argv[1])' {LISTENER}/shell"


class Path:
    def __fspath__(self):
        return f"{LISTENER}/path"


def paths(act, *args, **kwargs):
    recorder.SEEN.clear()
    act(*args, **kwargs)
    return sorted(path for path, _ in recorder.SEEN)


def run(*args, **kwargs):
    with holding(TOKEN):
        subprocess.run(*args, check=True, **kwargs)


def with_own_environment(*args):
    os.environ["BASE"] = LISTENER
    try:
        run(*args)
    finally:
        del os.environ["BASE"]


def check_output():
    with holding(TOKEN):
        subprocess.check_output(SHELL, shell=True)


async def start(kind):
    with holding(TOKEN):
        if kind == "exec":
            process = await asyncio.create_subprocess_exec(*PYTHON, LISTENER, env={**os.environ, "BASE": LISTENER})
        else:
            process = await asyncio.create_subprocess_shell(SHELL)
    await process.wait()


def kept():
    """What a child sees of the variables that are Rollcall's and Gym's, and of one that is nobody's."""
    names = ("NEMO_GYM_CONFIG_DICT", "ROLLCALL_ATTACHED", "ROLLCALL_PROXY", "OTHER")
    code = f"import json, os; print(json.dumps([os.environ[name] for name in {names}]))"
    with holding(TOKEN):
        text = subprocess.check_output(
            [sys.executable, "-Sc", code], env={**os.environ, **dict.fromkeys(names, LISTENER)}
        )
    return json.loads(text)


def texts():
    """What becomes of a text, written with L for the listener."""
    examples = (
        "L",
        "L/v1",
        '{"url": "L"}',
        "a=L,b=L/x",
        "L9",
        "L/rollcall-owner/o/v1",
        "L/rollcall-policy/o",
        "no url",
    )
    return {text: listeners.naming(text.replace("L", LISTENER), "o-1").replace(LISTENER, "L") for text in examples}


def untouched():
    """The very objects that were given, where there is nothing to name; and what Popen says of misuse."""
    args, env = ["a", b"b", ELSEWHERE], {"BASE": ELSEWHERE}
    same = [children.named_arguments(args, TOKEN) is args, children.named_env(env, TOKEN) is env]
    same += [children.named_env(None, TOKEN) is None, listeners.naming(LISTENER, "o; rm") == LISTENER]
    process = subprocess.Popen([*PYTHON, LISTENER], env={"BASE": LISTENER})
    process.wait()
    errors = []
    for owner in (None, TOKEN):
        with holding(owner):
            try:
                subprocess.Popen()
            except TypeError as error:
                errors.append(str(error))
    return {"same": [*same, process.args[-1] == LISTENER, len(errors) == 2, len(set(errors)) == 1]}


def main():
    base = {"env": {**os.environ, "BASE": LISTENER}}
    bytes_env = {"env": {os.fsencode(name): os.fsencode(value) for name, value in base["env"].items()}}
    found = {
        "python": paths(run, [*PYTHON, f"{LISTENER}/rollcall-owner/o-9"], **base),
        "positional": paths(run, (*PYTHON, LISTENER), -1, None, None, None, None, None, True, False, None, base["env"]),
        "bytes": paths(run, [*PYTHON, LISTENER.encode()], **bytes_env),
        "pathlike": paths(run, [*PYTHON, Path()]),
        "own environment": paths(with_own_environment, PYTHON),
        "shell": paths(check_output),
        "elsewhere": paths(run, [*PYTHON, ELSEWHERE]),
        "unowned": paths(subprocess.run, [*PYTHON, LISTENER], **base),
        "node": paths(run, [*NODE, LISTENER], **base) if NODE[0] else None,
        "kept": [text.replace(LISTENER, "L") for text in kept()],
        "texts": texts(),
        **untouched(),
    }
    for name, runner in (("asyncio", asyncio.run), ("uvloop", uvloop.run)):
        for kind in ("exec", "shell"):
            found[f"{name} {kind}"] = paths(lambda runner=runner, kind=kind: runner(start(kind)))
    print(json.dumps({"token": TOKEN, **found}))


main()
