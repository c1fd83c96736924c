"""`rollcall config`: the settings in force, and where each was given."""

import argparse
from collections.abc import Mapping
from typing import Any

import orjson
from pydantic_settings import BaseSettings
from rollcall_collector.contract.gate import ExitStatus

from . import config_file
from .config_layers import Source
from .config_showing import shown, written
from .options import UsageError, add_options, settings_and_sources
from .parts import FILED, PARTS

Answer = dict[str, Any]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """A part with its flags, as they would be given to its own command; none stands for all."""
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(part=None)
    parts = parser.add_subparsers(metavar="PART", required=False)
    for name, model in PARTS.items():
        text = f"the settings of {name if name != 'run' else 'rollcall run itself'}"
        part = parts.add_parser(name, help=text, description=text, allow_abbrev=False)
        part.add_argument("--config", metavar="FILE", default=argparse.SUPPRESS, help="file of settings")
        part.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print JSON")
        part.set_defaults(part=name, parser=part)
        if name in FILED:
            add_options(part, model)


def verb(options: argparse.Namespace) -> int:
    """0 when all are right. Raises UsageError."""
    given = vars(options)
    file = config_file.find(given.get("config"))
    path = None if file is None else str(file.path)
    parts = _all_right({name: PARTS[name] for name in ([options.part] if options.part else PARTS)}, given)
    if options.json:
        print(orjson.dumps({"file": path, **parts}, option=orjson.OPT_INDENT_2).decode())
    else:
        print("\n".join([f"file: {path or 'none'}", *(line for name in parts for line in _lines(name, parts[name]))]))
    return ExitStatus.SUCCEEDED


def _all_right(models: Mapping[str, type[BaseSettings]], given: Mapping[str, Any]) -> dict[str, dict[str, Answer]]:
    """Of each part. Raises UsageError with all that is wrong, not just what is wrong of one."""
    parts, wrong = {}, []
    for name, model in models.items():
        try:
            parts[name] = _part(model, given)
        except UsageError as error:
            wrong += str(error).splitlines()
    if wrong:
        raise UsageError("\n".join(dict.fromkeys(wrong)))
    return parts


def _part(model: type[BaseSettings], given: Mapping[str, Any]) -> dict[str, Answer]:
    """Each setting of a part: its value, the kind of its source, and the place."""
    settings, found = settings_and_sources(model, given)
    return {
        name: {"value": shown(field, getattr(settings, name)), **_source(found.get(name))}
        for name, field in model.model_fields.items()
    }


def _source(found: Source | None) -> Answer:
    return {"source": "default", "where": None} if found is None else {"source": found.kind, "where": found.where}


def _lines(part: str, settings: Mapping[str, Answer]) -> list[str]:
    rows = [(name, written(each["value"]), each["where"] or "default") for name, each in settings.items()]
    named, valued = (max(len(row[column]) for row in rows) for column in (0, 1))
    return ["", part, *(f"  {name:{named}}  {value:{valued}}  {where}" for name, value, where in rows)]
