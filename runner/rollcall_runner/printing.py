"""What the verbs that ask about a run have in common: their flags, and printing text or JSON."""

import argparse
from collections.abc import Callable
from typing import Any

import orjson


def about_a_run(parser: argparse.ArgumentParser) -> None:
    """The flags that say which run, who is asked, and in which form it is printed."""
    parser.add_argument("run", nargs="?", default="latest", help="a run's id; default: the newest")
    parser.add_argument("--collector", default=None, help="URL of a collector or proxy (default: ROLLCALL_PROXY, 7078)")
    parser.add_argument("--json", action="store_true", help="print JSON")


def print_answer(options: argparse.Namespace, value: Any, text: Callable[[], str]) -> None:
    """Print an answer in the form that is asked for."""
    print(orjson.dumps(value, option=orjson.OPT_INDENT_2).decode() if options.json else text())
