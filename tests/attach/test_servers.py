"""A server's config and its client, as the proxy rewrites them."""

from __future__ import annotations

import json
import time

import pytest
from attachlab import FAKE_GYM, LIBRARIES, FakeProxy, dead_url, python, run_gym, url, wait

CONFIG = json.dumps({name: {"host": "127.0.0.1", "port": port} for name, port in (("agent", 8001), ("model", 8002))})
STATE = (
    "import json, os, nemo_gym.server_utils as s\n"
    "config, attached = os.environ.get('NEMO_GYM_CONFIG_DICT'), os.environ.get('ROLLCALL_ATTACHED')\n"
    "print(json.dumps({'config': config and json.loads(config), 'attached': attached and json.loads(attached)}))\n"
)


def server(own: str | None = "agent", **env: str) -> dict[str, str]:
    return {"NEMO_GYM_CONFIG_DICT": CONFIG, **({"NEMO_GYM_CONFIG_PATH": own} if own else {}), **env}


def test_a_server_reads_the_others_at_their_listeners_and_itself_where_it_binds(proxy: FakeProxy) -> None:
    """The rewritten config stands in the variable before Gym reads it."""
    state = json.loads(run_gym(STATE, ROLLCALL_PROXY=proxy.url, **server()).out)
    assert {name: entry["port"] for name, entry in state["config"].items()} == {"agent": 8001, "model": 18002}
    assert proxy.asked("POST /v1/config") == [{"config": CONFIG, "own": "agent"}]


def test_a_worker_born_later_registers_nothing_even_with_the_proxy_dead(proxy: FakeProxy) -> None:
    """uvicorn's workers inherit the rewritten config and know it by its digest."""
    child = (
        "import subprocess, sys; subprocess.run([sys.executable, '-c', %r], env={**os.environ, 'ROLLCALL_PROXY': %r})"
    )
    done = run_gym(f"{STATE}\n{child % (STATE, dead_url())}", ROLLCALL_PROXY=proxy.url, **server())
    parent, worker = map(json.loads, done.out.splitlines())
    assert parent == worker
    assert len(proxy.asked("POST /v1/config")) == 1
    assert done.err == ""


def test_a_worker_knows_the_listeners(proxy: FakeProxy) -> None:
    """Its own base URL, and the origins that header fields may go to, come from ROLLCALL_ATTACHED."""
    code = (
        "import os, subprocess, sys, nemo_gym.server_utils as s\n"
        "from rollcall_attach import listeners\n"
        "client = s.ServerClient({})\n"
        "own = client._build_server_base_url({'host': '127.0.0.1', 'port': 8001})\n"
        "print(own, listeners.known('http', '127.0.0.1', 18002), flush=True)\n"
        "if len(sys.argv) == 1: subprocess.run([sys.executable, '-c', sys.orig_argv[2], 'worker'])\n"
    )
    done = run_gym(code, ROLLCALL_PROXY=proxy.url, **server())
    assert done.out.splitlines() == [f"{url(18001)} True"] * 2


def test_a_first_start_without_a_proxy_stops_with_4_and_one_clear_line() -> None:
    """The line names the address, the variable, the time, the cause and the cure."""
    dead, started = dead_url(), time.monotonic()
    done = run_gym(STATE, ROLLCALL_PROXY=dead, **server())
    assert done.status == 4
    assert done.err == (
        f"rollcall: cannot reach the proxy at {dead} (ROLLCALL_PROXY) for 1 s: Connection refused; "
        "start it with 'rollcall proxy' or unset ROLLCALL_PROXY\n"
    )
    assert 1 <= time.monotonic() - started < 10


def test_a_first_start_waits_for_a_proxy_that_is_being_started(proxy: FakeProxy) -> None:
    """Up to the limit, 502 to 504 and refused connections are asked again."""
    proxy.refuses["config"] = (503, "starting")
    process = python(
        STATE, path=(FAKE_GYM, LIBRARIES), ROLLCALL_PROXY=proxy.url, **server(ROLLCALL_ATTACH_TIMEOUT="20")
    )
    while not proxy.seen and process.poll() is None:
        time.sleep(0.02)
    proxy.refuses.clear()
    assert wait(process).status == 0


@pytest.mark.parametrize(("status", "detail"), [(409, "agent's address is a listener of model"), (400, "not YAML")])
def test_what_the_proxy_refuses_is_told_in_its_own_words(proxy: FakeProxy, status: int, detail: str) -> None:
    """An error answer stops a first start at once."""
    proxy.refuses["config"] = (status, detail)
    done = run_gym(STATE, ROLLCALL_PROXY=proxy.url, **server())
    assert (done.status, len(proxy.seen)) == (4, 1)
    assert done.err == f"rollcall: the proxy at {proxy.url} refused POST /v1/config with {status}: {detail}\n"


@pytest.mark.parametrize("value", ["localhost:7077", "7077", "ftp://127.0.0.1"])
def test_a_variable_that_is_no_url_is_said_to_be_none(value: str) -> None:
    """A wrong ROLLCALL_PROXY is not waited for."""
    done = run_gym(STATE, ROLLCALL_PROXY=value, **server())
    assert done.status == 4
    assert f"ROLLCALL_PROXY is {value!r}, not a URL" in done.err


def test_a_ray_worker_never_stops() -> None:
    """It has the config and no name: it goes on with the config as it is, and says so in a line."""
    done = run_gym(
        f"{STATE}\ns.ServerClient.load_from_global_config()", ROLLCALL_PROXY=dead_url(), RAY_JOB_ID="01", **server(None)
    )
    assert done.status == 0
    assert json.loads(done.out)["config"] == json.loads(CONFIG)
    assert len(done.said) == 2


def test_the_starting_process_keeps_the_real_addresses(proxy: FakeProxy) -> None:
    """It polls its servers, and takes any answer as ready: the proxy's would tell it nothing."""
    code = (
        "import nemo_gym.server_utils as s\n"
        "s.ServerClient.load_from_global_config()\n"
        "print(s.ServerClient({})._build_server_base_url({'host': '127.0.0.1', 'port': 8001}))\n"
    )
    assert run_gym(code, ROLLCALL_PROXY=proxy.url, FAKE_HEAD_SERVER=CONFIG).out.strip() == url(8001)


def test_a_client_made_from_the_head_servers_config_calls_listeners(proxy: FakeProxy) -> None:
    """A copy is rewritten; the config that Gym holds stays what it was."""
    code = (
        "import json, os, nemo_gym.server_utils as s\n"
        "client = s.ServerClient.load_from_global_config()\n"
        "urls = [client._build_server_base_url(e) for e in client.global_config_dict.values()]\n"
        "print(urls, type(client) is s.ServerClient)\n"
    )
    done = run_gym(code, ROLLCALL_PROXY=proxy.url, FAKE_HEAD_SERVER=CONFIG)
    assert done.out.strip() == f"{[url(18001), url(18002)]} True"
    assert proxy.asked("config") == [{"config": CONFIG, "own": None}]


def test_a_client_outside_of_a_server_stops_with_4_where_there_is_no_proxy() -> None:
    """Its calls would go past Rollcall."""
    dead = dead_url()
    code = "import nemo_gym.server_utils as s; s.ServerClient.load_from_global_config()"
    done = run_gym(code, ROLLCALL_PROXY=dead, FAKE_HEAD_SERVER=CONFIG)
    assert done.status == 4
    assert done.err.startswith(f"rollcall: cannot reach the proxy at {dead}")


def test_a_client_inside_of_a_server_goes_on_where_the_proxy_has_died(proxy: FakeProxy) -> None:
    """One line of warning; the server's own config leads to the listeners already."""
    code = (
        f"{STATE}\n"
        f"os.environ['ROLLCALL_PROXY'] = {dead_url()!r}\n"
        "print(s.ServerClient.load_from_global_config().global_config_dict['model']['port'])\n"
    )
    done = run_gym(code, ROLLCALL_PROXY=proxy.url, **server())
    assert (done.status, done.out.splitlines()[1]) == (0, "18002")
    assert len(done.said) == len(done.err.splitlines()) == 1


def test_a_version_without_what_is_hooked_stops_with_4_and_says_what_is_missing(proxy: FakeProxy) -> None:
    """Better no run than one that nobody counts."""
    code = "import uvicorn.config; del uvicorn.config.Config.load; import nemo_gym.server_utils"
    done = run_gym(code, ROLLCALL_PROXY=proxy.url, **server())
    assert done.status == 4
    assert "uvicorn.config Config has no load" in done.err


def test_control_calls_do_not_go_through_a_proxy_variable(proxy: FakeProxy) -> None:
    """HTTP_PROXY is for the outside world."""
    done = run_gym(STATE, ROLLCALL_PROXY=proxy.url, HTTP_PROXY=dead_url(), http_proxy=dead_url(), **server())
    assert done.status == 0
