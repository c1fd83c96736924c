"""`rollcall completion`: what a shell reads to complete verbs, flags and their values."""

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from rollcall_collector.contract.gate import ExitStatus

from .parts import FILED

SHELLS = ("bash", "zsh", "fish")

_HOW = {
    "bash": 'eval "$(rollcall completion bash)"  # in ~/.bashrc',
    "zsh": "rollcall completion zsh > ~/.zfunc/_rollcall  # a folder of fpath, before compinit",
    "fish": "rollcall completion fish > ~/.config/fish/completions/rollcall.fish",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of `rollcall completion`."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "\n".join([f"{parser.description}:", *(f"  {line}" for line in _HOW.values())])
    parser.add_argument("shell", choices=SHELLS)


def print_completion(options: argparse.Namespace, parser: argparse.ArgumentParser) -> int:
    """Print it. The parser is only good for that afterwards."""
    import shtab  # no other verb needs it

    fields = {name: field for model in FILED.values() for name, field in model.model_fields.items()}
    for action in _actions(parser):
        if _takes_file(action, fields.get(action.dest)):
            action.complete = shtab.FILE  # type: ignore[attr-defined]  # where shtab looks for it
        action.choices = action.choices or _words(fields.get(action.dest))
    sys.stdout.write(shtab.complete(parser, shell=options.shell))
    return ExitStatus.SUCCEEDED


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    for action in parser._actions:
        yield action
        if isinstance(action, argparse._SubParsersAction):
            for inner in action.choices.values():
                yield from _actions(inner)


def _takes_file(action: argparse.Action, field: FieldInfo | None) -> bool:
    """A setting says it by its type, another flag by the word in its help."""
    return Path in _types(field) or action.metavar in ("FILE", "JSONL")


def _words(field: FieldInfo | None) -> tuple[str, ...] | None:
    """The values of a setting that has few."""
    return next((get_args(each) for each in _types(field) if get_origin(each) is Literal), None)


def _types(field: FieldInfo | None) -> tuple[Any, ...]:
    return (field.annotation, *get_args(field.annotation)) if field else ()
