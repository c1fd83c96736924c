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
from rollcall_collector.routes import ROUTES, Route
from rollcall_collector.settings import BY_VARIABLE_ALONE, CollectorSettings
from rollcall_proxy.settings import ProxySettings
from rollcall_runner.cli import main as rollcall
from rollcall_runner.config_layers import flag_of
from rollcall_runner.config_showing import written
from rollcall_runner.parts import FILED, AttachSettings, RunSettings, variable_of

DOCS = Path(__file__).resolve().parent
STATE = "$XDG_STATE_HOME"

HEAD = """# Configuration

<!-- Written by docs/generate.py from the settings models; change those, then run `python docs/generate.py`. -->

A setting is a flag of the command, else a variable, else a key of a file, else its default; an empty variable counts as
none. What is wrong, and what is no setting, is refused at the start, with its name, the value, the reason and the right
name, and exit status 2. Times are in seconds. Where `{STATE}` is not set, it is `~/.local/state`.

`rollcall config` prints what is in force and where it was given; `rollcall config proxy FLAGS…` does so for one part
and a command line, `--json` for programs. Secrets are shown as `***`.

```console
$ export ROLLCALL_PROXY_MODE=observe
$ rollcall config proxy --workers 2
file: none

proxy
…
  workers …2 …--workers
…
  mode …observe …ROLLCALL_PROXY_MODE
…
```

## The file

`rollcall.toml` in the working folder, or the one that `--config FILE` or `ROLLCALL_CONFIG` names. Its tables are
{tables}; a key is the flag's name with `_` for `-`, a path is one from
the file's folder. Only the owner may be able to read a file that has a secret in it, or
a password in a URL.

```toml settings
[collector]
database = "postgresql://rollcall@db.example/rollcall"

[proxy]
first_byte_timeout = 3600
upstream = ["policy_model=http://127.0.0.1:8000"]

[run]
retry = 2
```

Variables that begin with `ROLLCALL_COLLECTOR_`, `ROLLCALL_PROXY_` or `ROLLCALL_RUN_` and are no settings are refused,
as is any that comes near one's name. Those that Kubernetes makes for its Services are left alone.
"""

RUN = """
## `rollcall run`

`rollcall run [FLAGS] -- COMMAND…` starts a collector and a proxy of its own, on ports 7078 and 7077 where those are
free. The variables and tables of both count, but for where to listen, and these flags:
{flags}.

{table}
Where `ROLLCALL_PROXY` names a proxy that runs already, that one is used, with the settings it was started with. A flag
of `rollcall run` beside it, but for `--retry` and `--retry-pause`, is wrong use.
"""

ATTACH = """
## The attach

{says}

| variable | default | meaning |
| --- | --- | --- |
"""

TABLE = """| flag | variable | default | meaning |
| --- | --- | --- | --- |
"""


def configuration() -> str:
    """The whole of docs/configuration.md."""
    with patch.dict(os.environ, {"XDG_STATE_HOME": STATE}):
        sections = [section("rollcall collector", CollectorSettings), section("rollcall proxy", ProxySettings)]
    head = HEAD.format(STATE=STATE, tables=", ".join(f"`[{name}]`" for name in FILED))
    flags = textwrap.fill(", ".join(run_flags()), 110, break_on_hyphens=False)
    return "".join([head, *sections, RUN.format(flags=flags, table=table(RunSettings)), attach()])


def attach() -> str:
    """The section on the attach, whose settings are variables alone."""
    rows = [
        f"| `{variable_of(AttachSettings, name)}` | {default_shown(field)} | {field.description} |\n"
        for name, field in AttachSettings.model_fields.items()
    ]
    return ATTACH.format(says=inspect.cleandoc(AttachSettings.__doc__ or "")) + "".join(rows)


def section(command: str, model: type[BaseSettings]) -> str:
    """One model's settings under the command that takes them."""
    return f"\n## `{command}`\n\n{inspect.cleandoc(model.__doc__ or '')}\n\n{table(model)}"


def table(model: type[BaseSettings]) -> str:
    return TABLE + "".join(setting_row(model, name, field) for name, field in model.model_fields.items())


def setting_row(model: type[BaseSettings], name: str, field: Any) -> str:
    flag = "none" if field.json_schema_extra == BY_VARIABLE_ALONE else f"`{flag_of(name)}`"
    return f"| {flag} | `{variable_of(model, name)}` | {default_shown(field)} | {field.description} |\n"


def default_shown(field: Any) -> str:
    default = field.get_default(call_default_factory=True, validated_data={})
    return "none" if default in (None, []) else f"`{written(default)}`"


def run_flags() -> list[str]:
    """The flags of `rollcall run`, by its own help."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.suppress(SystemExit):
        rollcall(["run", "--help"])
    flags = re.findall(r"^  (--[a-z-]+)[ ,]", said.getvalue(), re.MULTILINE)
    return [f"`{flag}`" for flag in flags if flag != "--config"]


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
