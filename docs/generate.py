"""Writes what in the documentation comes from the code: `python docs/generate.py`.

docs/configuration.md is made from the settings models, the table of docs/api.md from the collector's routes. In
docs/contract.md each block opened with
```json generated=NAME is made by the contract's own functions (docs/contract_examples.py).
"""

import contextlib
import inspect
import io
import json
import os
import re
import textwrap
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import contract_examples
from pydantic_settings import BaseSettings
from rollcall_attach import control, session
from rollcall_collector.routes import ROUTES, Route
from rollcall_collector.settings import BY_VARIABLE_ALONE, CollectorSettings
from rollcall_proxy.settings import ProxySettings
from rollcall_runner.cli import main as rollcall

DOCS = Path(__file__).resolve().parent
STATE = "$XDG_STATE_HOME"

HEAD = f"""# Configuration

<!-- Written by docs/generate.py from the settings models; change those, then run `python docs/generate.py`. -->

A setting is a flag of the command, or a variable; the flag wins. A wrong value is refused at the start, with its name,
the value and the reason, and exit status 2. Times are in seconds. Where `{STATE}` is not set, it is
`~/.local/state`.
"""

RUN = """
## `rollcall run`

`rollcall run [FLAGS] -- COMMAND…` starts a collector and a proxy of its own, on ports 7078 and 7077 where those are
free. The variables of both count, but for where to listen, and these flags:
{flags}.

Where `ROLLCALL_PROXY` names a proxy that runs already, that one is used, with the settings it was started with. A flag
of `rollcall run` beside it, but for `--retry` and `--retry-pause`, is wrong use.
"""

ATTACH = """
## The attach

Variables in the environment of Gym's processes. The first two are set by `rollcall run`.

| variable | default | meaning |
| --- | --- | --- |
| `ROLLCALL_PROXY` | not set | URL of the proxy's main port, such as `http://127.0.0.1:7077`. It switches the attach on: without it nothing in Gym is touched. `rollcall status`, `gate` and `failures` ask there too |
| `ROLLCALL_LAUNCH` | not set | an id that the session hands on, by which `rollcall run` finds the runs of its command |
| `ROLLCALL_PROXY_GRACE` | {grace:g} | how long a run goes on while its proxy does not answer; after that a `gym` command is stopped with exit status 4 |
| `ROLLCALL_ATTACH_TIMEOUT` | {limit:g} | how long the attach asks the proxy for one thing before it gives up |
| `ROLLCALL_TOKEN` | not set | what the proxy is shown where it asks for a token; Rollcall's commands show it to the proxy or collector that they ask, and `rollcall run` has its own services ask for it |
| `ROLLCALL_TOKEN_FILE` | not set | a file that holds it, and that no other user can read; wins over the variable |
| `ROLLCALL_CA_FILE` | not set | PEM file of the authority of an https proxy's or collector's certificate; else the system's count |
| `ROLLCALL_ATTACHED` | set by the attach | what a server tells its workers, so that they do not register again; leave it alone |
"""  # noqa: E501 - a row of a Markdown table is one line

TABLE = """| flag | variable | default | meaning |
| --- | --- | --- | --- |
"""


def configuration() -> str:
    """The whole of docs/configuration.md."""
    with patch.dict(os.environ, {"XDG_STATE_HOME": STATE}):
        sections = [section("rollcall collector", CollectorSettings), section("rollcall proxy", ProxySettings)]
    attach = ATTACH.format(grace=session.GRACE, limit=control.LIMIT)
    return "".join(
        [HEAD, *sections, RUN.format(flags=textwrap.fill(", ".join(run_flags()), 110, break_on_hyphens=False)), attach]
    )


def section(command: str, model: type[BaseSettings]) -> str:
    """One model's settings under the command that takes them."""
    prefix = model.model_config.get("env_prefix", "")
    rows = [setting_row(name, field, prefix) for name, field in model.model_fields.items()]
    return f"\n## `{command}`\n\n{inspect.cleandoc(model.__doc__ or '')}\n\n{TABLE}{''.join(rows)}"


def setting_row(name: str, field: Any, prefix: str) -> str:
    default = field.get_default(call_default_factory=True, validated_data={})
    shown = f"`{default:g}`" if isinstance(default, float) else f"`{default}`" if default else "none"
    flag = "none" if field.json_schema_extra == BY_VARIABLE_ALONE else f"`--{name.replace('_', '-')}`"
    return f"| {flag} | `{prefix}{name.upper()}` | {shown} | {field.description} |\n"


def run_flags() -> list[str]:
    """The flags of `rollcall run`, by its own help."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        rollcall(["run", "--help"])
    flags = re.findall(r"^  (--[a-z-]+) ", said.getvalue(), re.MULTILINE)
    return [f"`{flag}`" for flag in flags]


def with_examples(text: str) -> str:
    """The text with each generated block filled anew."""
    makers: dict[str, Callable[[], Any]] = contract_examples.EXAMPLES

    def filled(found: re.Match[str]) -> str:
        value = shown(makers[found["name"]]())
        return f"```json generated={found['name']}\n{value}\n```\n"

    return re.sub(r"```json generated=(?P<name>\w+)\n.*?```\n", filled, text, flags=re.DOTALL)


ROUTES_HEAD = """| route | what | query | passed on |
| --- | --- | --- | --- |
"""


def with_routes(text: str) -> str:
    """The text with the table of routes between its marks filled anew."""
    table = ROUTES_HEAD + "".join(map(route_row, ROUTES))
    return re.sub(r"(?<=<!-- routes -->\n).*?(?=<!-- end -->)", lambda _: table, text, flags=re.DOTALL)


def route_row(route: Route) -> str:
    query = ", ".join(f"`{each.name}`" for each in route.query)
    return f"| `{route.method} {route.path}` | {route.says} | {query} | {'yes' if route.relayed else ''} |\n"


def shown(value: Any, level: int = 0) -> str:
    """JSON with a line for each key of the first two levels, and for each tag: rows are long."""
    opened = isinstance(value, dict) and (level < 2 or "root_cause" in value)
    listed = isinstance(value, list) and value and isinstance(value[0], dict)
    if not opened and not listed:
        return json.dumps(value, ensure_ascii=False)
    pad = "  " * (level + 1)
    if listed:
        parts = [pad + json.dumps(each, ensure_ascii=False) for each in value]
    else:
        parts = [f"{pad}{json.dumps(key)}: {shown(each, level + 1)}" for key, each in value.items()]
    first, last = "[]" if listed else "{}"
    return "\n".join([first, ",\n".join(parts), "  " * level + last])


def documents() -> dict[Path, str]:
    """Each document that holds something generated, as it should be."""
    contract, api = DOCS / "contract.md", DOCS / "api.md"
    return {
        DOCS / "configuration.md": configuration(),
        contract: with_examples(contract.read_text()),
        api: with_routes(api.read_text()),
    }


if __name__ == "__main__":
    for path, text in documents().items():
        path.write_text(text)
