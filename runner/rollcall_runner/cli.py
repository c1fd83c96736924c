"""The command `rollcall`."""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Collection, Sequence
from typing import Any

import rollcall_attach
from rollcall_collector.contract.gate import ExitStatus
from rollcall_collector.failures_text import failures_text
from rollcall_collector.results.errors import ResultsError
from rollcall_collector.service import serving as collector_serving
from rollcall_collector.settings import CollectorSettings, PolicySettings
from rollcall_collector.store import DatabaseError
from rollcall_collector.store.database import said
from rollcall_collector.store.grouping import WAYS
from rollcall_proxy.service import serving as proxy_serving
from rollcall_proxy.settings import Limits, ProxySettings
from sqlalchemy.exc import SQLAlchemyError

from . import (
    accepting,
    asking,
    completing,
    config_file,
    config_verb,
    demo,
    diverting,
    doctor,
    forgetting,
    gate_verb,
    pruning,
    rebuilding,
    running,
    showing,
    status_verb,
)
from .options import UsageError, add_options, refuse_unknown_flags, settings_from
from .parts import RunSettings
from .printing import about_a_run, print_answer
from .services import ending_at_once, serve
from .usage import nearest, perhaps
from .version_text import Version

_ASKING_NOBODY = ("collector", "proxy", "run", "config", "completion", "attach-path", "demo")
"""Verbs that show nobody a token; the first have settings of their own that name one."""

Verb = Callable[[argparse.Namespace], int]


_NOBODY_READS = 128 + signal.SIGPIPE
"""What a shell says of a command whose output nobody reads to its end, as in `rollcall failures | head`."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; the exit status is the contract's."""
    try:
        status = _main(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that the interpreter's last flush ends well
        return _NOBODY_READS
    return status


def _main(arguments: Sequence[str] | None) -> int:
    given = list(sys.argv[1:] if arguments is None else arguments)
    own, command = _split(given)
    parser = _parser()
    try:
        _refuse_unknown_verb(own, parser.get_default("verbs"))
        options, extras = parser.parse_known_args(own)
        refuse_unknown_flags(options.parser, extras)
        options.command, options.flags = command, own[1:]
        if own[0] not in _ASKING_NOBODY and options.token_file is not None:
            os.environ["ROLLCALL_TOKEN_FILE"] = options.token_file
        if getattr(options, "collector", "") is None:
            options.collector = asking.default_url(vars(options))
        verb: Verb = options.verb
        return int(verb(options))
    except UsageError as error:
        print("\n".join(f"rollcall: {line}" for line in str(error).splitlines()), file=sys.stderr)
        return ExitStatus.WRONG_USE
    except asking.NoSuchRunError as error:
        print(f"rollcall: {error}", file=sys.stderr)
        return ExitStatus.NOTHING_EXPECTED
    except (asking.UnreachableError, DatabaseError, ResultsError) as error:
        print(f"rollcall: {error}", file=sys.stderr)
        return ExitStatus.ROLLCALL_FAILED
    except SQLAlchemyError as error:
        print(f"rollcall: the database: {said(error)}", file=sys.stderr)
        return ExitStatus.ROLLCALL_FAILED


def _refuse_unknown_verb(arguments: Sequence[str], verbs: Collection[str]) -> None:
    """Raises UsageError."""
    first = next(iter(arguments), "-")
    if first not in verbs and not first.startswith("-"):
        raise UsageError(f"no such verb: {first}{perhaps(nearest(first, verbs))}; there are {', '.join(verbs)}")


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Rollcall's own arguments, and the command behind `--`."""
    if "--" not in arguments:
        return arguments, []
    at = arguments.index("--")
    return arguments[:at], arguments[at + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="rollcall", description="Makes evaluation runs account for every rollout.", allow_abbrev=False
    )
    parser.add_argument("--version", action=Version, nargs=0, help="the versions of the program and its parts")
    verbs = parser.add_subparsers(required=True, metavar="VERB")
    add_options(_verb(verbs, "collector", _collector, "run the collector"), CollectorSettings)
    add_options(_verb(verbs, "proxy", _proxy, "run the proxy"), ProxySettings)
    run = _verb(verbs, "run", _run, "run a command attached: rollcall run -- gym eval run …")
    add_options(run, CollectorSettings, ["database", "log_format", "allow_uids", *PolicySettings.model_fields])
    of_proxy = ["mode", "head_server", "spool", "watch_providers", "allow_servers", *Limits.model_fields]
    add_options(run, ProxySettings, of_proxy)
    add_options(run, RunSettings)
    status_verb.add_arguments(_verb(verbs, "status", status_verb.verb, "the state of a run"))
    gate = "which metrics are released; the exit status says whether all are"
    gate_verb.add_arguments(_verb(verbs, "gate", gate_verb.verb, gate))
    failures = _verb(verbs, "failures", _failures, "the failed rollouts, grouped by root cause")
    about_a_run(failures)
    failures.add_argument("--group", choices=WAYS, default="cause", help="what makes a group (default: cause)")
    failures.add_argument("--limit", metavar="N", type=_times, default=100, help="groups shown (default: 100)")
    show = "the whole story of one rollout: its dispatches, and their calls in order of time"
    showing.add_arguments(_verb(verbs, "show", showing.verb, show))
    diverting.add_arguments(_verb(verbs, "divert", diverting.verb, "put every row where its verdict says"))
    forgetting.add_arguments(_verb(verbs, "forget", forgetting.verb, "archive failure rows, to have them sent again"))
    accepting.add_arguments(
        _verb(verbs, "accept", accepting.verb, "accept what withholds a run's metrics, and say why")
    )
    pruning.add_arguments(_verb(verbs, "prune", pruning.verb, "remove old runs from the database"))
    rebuilding.add_arguments(
        _verb(verbs, "rebuild", rebuilding.verb, "take a run that the database has lost from its files")
    )
    examine = _verb(verbs, "doctor", _doctor, "send one marked rollout and say which hops carried its owner")
    examine.add_argument("--agent", required=True, help="the agent's name, or the environment server's in front of it")
    examine.add_argument("--input", required=True, help="JSON Lines file whose first row is sent")
    examine.add_argument("--proxy", default=None, help="URL of the proxy (default: ROLLCALL_PROXY)")
    shown = "the settings in force, and where each was given"
    config_verb.add_arguments(_verb(verbs, "config", config_verb.verb, shown))
    complete = "what a shell reads to complete the command"
    completing.add_arguments(_verb(verbs, "completion", _completion, complete))
    _verb(verbs, "attach-path", _attach_path, "the folder that goes on Gym's PYTHONPATH")
    _verb(verbs, "demo", _demo, "a small evaluation with a fault of each kind").add_argument("--output", default=None)
    parser.set_defaults(verbs=tuple(verbs.choices))
    return parser


def _verb(verbs: Any, name: str, verb: Verb, text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=text, description=text, allow_abbrev=False)
    parser.set_defaults(verb=verb, parser=parser)
    if name not in _WITHOUT_SETTINGS:
        where = f"file of settings (default: ${config_file.VARIABLE}, else {config_file.USUAL} where it is)"
        parser.add_argument("--config", metavar="FILE", default=None, help=where)
    if name not in _ASKING_NOBODY:
        shown = "file that holds the token that a collector or proxy is shown (ROLLCALL_TOKEN_FILE, ROLLCALL_TOKEN)"
        parser.add_argument("--token-file", default=None, help=shown)
    return parser


_WITHOUT_SETTINGS = ("attach-path", "completion", "demo")


def _times(text: str) -> int:
    """A flag's number of times. Raises ValueError."""
    if not text.isdecimal():
        raise ValueError(text)
    return int(text)


def _collector(options: argparse.Namespace) -> int:
    settings = settings_from(CollectorSettings, vars(options))
    return serve("collector", lambda hurry: ending_at_once(collector_serving(settings), hurry), settings.log_format)


def _proxy(options: argparse.Namespace) -> int:
    settings = settings_from(ProxySettings, vars(options))
    return serve("proxy", lambda hurry: proxy_serving(settings, hurry), settings.log_format)


def _run(options: argparse.Namespace) -> int:
    if not options.command:
        raise UsageError("no command; write: rollcall run -- gym eval run …")
    given = vars(options)
    return running.run(options.command, given, options.flags, settings_from(RunSettings, given))


def _failures(options: argparse.Namespace) -> int:
    found = _asked(options, "/failures", group=options.group, limit=str(options.limit))
    print_answer(options, found, lambda: failures_text(found).rstrip())
    return ExitStatus.SUCCEEDED


def _doctor(options: argparse.Namespace) -> int:
    proxy = options.proxy or os.environ.get("ROLLCALL_PROXY") or "http://127.0.0.1:7077"
    status = doctor.examine(proxy, options.agent, doctor.first_row(options.input))
    print("\n".join(doctor.diagnosis(status)))
    return ExitStatus.SUCCEEDED if doctor.is_sound(status) else ExitStatus.INCOMPLETE


def _asked(options: argparse.Namespace, rest: str, **query: str) -> Any:
    return asking.get(options.collector, asking.run_path(options.run, rest), **query)


def _attach_path(_: argparse.Namespace) -> int:
    print(rollcall_attach.attach_path())
    return ExitStatus.SUCCEEDED


def _completion(options: argparse.Namespace) -> int:
    return completing.print_completion(options, _parser())


def _demo(options: argparse.Namespace) -> int:
    return demo.main([] if options.output is None else ["--output", options.output])
