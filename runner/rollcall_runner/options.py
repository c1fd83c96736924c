"""Command-line options from settings models: a flag for each field, `--first-byte-timeout` for first_byte_timeout."""

import argparse
from collections.abc import Iterable
from typing import Any, TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings
from rollcall_collector.settings import BY_VARIABLE_ALONE

Settings = TypeVar("Settings", bound=BaseSettings)


class UsageError(Exception):
    """Wrong use of the command; the text names the setting, the value and the cure."""


def add_options(parser: argparse.ArgumentParser, model: type[BaseSettings], names: Iterable[str] | None = None) -> None:
    """Give the parser a flag for each field of a settings model, or for those named."""
    prefix = model.model_config.get("env_prefix", "")
    for name in names or model.model_fields:
        field = model.model_fields[name]
        if field.json_schema_extra == BY_VARIABLE_ALONE:
            continue
        help_text = f"{field.description} ({prefix}{name.upper()})"
        shape: dict[str, Any] = {"action": "store", "metavar": name.upper()}
        if getattr(field.annotation, "__origin__", None) is list:
            shape["action"] = "append"
        elif field.annotation is bool:
            shape = {"action": "store_true"}
        parser.add_argument(_flag(name), dest=name, default=argparse.SUPPRESS, help=help_text, **shape)


def settings_from(model: type[Settings], given: dict[str, Any], **fixed: Any) -> Settings:
    """The settings from flags, then variables, then defaults; `fixed` overrides all. Raises UsageError."""
    flags = {name: value for name, value in given.items() if name in model.model_fields}
    try:
        return model(**(flags | fixed))
    except ValidationError as error:
        raise UsageError(_first_problem(error, model, flags)) from error


def flags_from(model: type[BaseSettings], given: dict[str, Any]) -> list[str]:
    """What was given of a model's settings, as flags again."""
    flags: list[str] = []
    for name, value in given.items():
        if name in model.model_fields:
            values = value if isinstance(value, list) else [value]
            flags += [part for each in values for part in ([_flag(name)] if each is True else [_flag(name), str(each)])]
    return flags


def _first_problem(error: ValidationError, model: type[BaseSettings], flags: dict[str, Any]) -> str:
    first = error.errors(include_url=False)[0]
    message = first["msg"].removeprefix("Value error, ")
    if not first["loc"]:
        return message  # about several settings, which it names
    name = str(first["loc"][0])
    variable = f"{model.model_config.get('env_prefix', '')}{name.upper()}"
    source = _flag(name) if name in flags else variable
    return f"{source} = {first['input']!r}: {message}"


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")
