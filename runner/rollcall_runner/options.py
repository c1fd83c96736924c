"""Command-line options from settings models: a flag for each field, `--first-byte-timeout` for first_byte_timeout."""

import argparse
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings
from rollcall_collector.settings import BY_VARIABLE_ALONE

from .config_layers import Source, flag_of, sources
from .config_showing import shown, without_secrets
from .parts import variable_of
from .usage import UsageError, nearest, perhaps

__all__ = ["UsageError", "add_options", "flags_from", "refuse_unknown_flags", "settings_and_sources", "settings_from"]

Settings = TypeVar("Settings", bound=BaseSettings)


def add_options(parser: argparse.ArgumentParser, model: type[BaseSettings], names: Iterable[str] | None = None) -> None:
    """Give the parser a flag for each field of a settings model, or for those named."""
    for name in names or model.model_fields:
        field = model.model_fields[name]
        if field.json_schema_extra == BY_VARIABLE_ALONE:
            continue
        help_text = f"{field.description} ({variable_of(model, name)})"
        shape: dict[str, Any] = {"action": "store", "metavar": name.upper()}
        if getattr(field.annotation, "__origin__", None) is list:
            shape["action"] = "append"
        elif field.annotation is bool:
            shape = {"action": argparse.BooleanOptionalAction}
        parser.add_argument(flag_of(name), dest=name, default=argparse.SUPPRESS, help=help_text, **shape)


def settings_from(model: type[Settings], given: Mapping[str, Any], **fixed: Any) -> Settings:
    """The settings from flags, then variables, then the file, then defaults; `fixed` overrides all.

    Raises UsageError, with a line for each that is wrong.
    """
    return settings_and_sources(model, given, **fixed)[0]


def settings_and_sources(
    model: type[Settings], given: Mapping[str, Any], **fixed: Any
) -> tuple[Settings, dict[str, Source]]:
    """The same, and where each was given that has not its default."""
    found = sources(model, given)
    # pydantic-settings reads the variables itself, since it knows how each type is written in one.
    told = {name: source.value for name, source in found.items() if source.kind != "variable"}
    try:
        return model(**(told | fixed)), found
    except ValidationError as error:
        raise UsageError("\n".join(_problems(error, model, found))) from error


def flags_from(model: type[BaseSettings], given: Mapping[str, Any]) -> list[str]:
    """What was given of a model's settings, as flags again."""
    flags: list[str] = []
    for name, value in given.items():
        if name in model.model_fields:
            flag = flag_of(name)
            values = value if isinstance(value, list) else [value]
            flags += [part for each in values for part in _written(flag, each)]
    return flags


def _written(flag: str, value: Any) -> list[str]:
    if isinstance(value, bool):
        return [flag if value else flag.replace("--", "--no-", 1)]
    return [flag, str(value)]


def _problems(error: ValidationError, model: type[BaseSettings], found: Mapping[str, Source]) -> Iterable[str]:
    for each in error.errors(include_url=False):
        message = each["msg"].removeprefix("Value error, ")
        if not each["loc"]:
            yield message  # about several settings, which it names
            continue
        name = str(each["loc"][0])
        field = model.model_fields[name]
        where = found[name].where if name in found else variable_of(model, name)
        if name in found and found[name].kind == "file":
            where += f": {name}"
        value = each["input"]
        yield f"{where} = {shown(field, value)!r}: {without_secrets(message, field, value)}"


def refuse_unknown_flags(parser: argparse.ArgumentParser, extras: Iterable[str]) -> None:
    """Raise UsageError for what is left of a command line, with the right flag where one is near."""
    known = [word for word in parser.format_help().replace(",", " ").split() if word.startswith("--")]
    names = [each.partition("=")[0] for each in extras]
    flags = [f"no such flag: {name}{perhaps(nearest(name, known))}" for name in names if name.startswith("-")]
    wrong = flags or [f"{' '.join(names)}: more than {parser.prog} takes"] if names else []
    if wrong:
        raise UsageError("\n".join(wrong))
