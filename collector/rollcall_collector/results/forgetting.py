"""Archiving failure rows, so that Gym counts them as attempts no more and sends their rollouts again.

Gym does not send a rollout again whose failure row is terminal, or that has as many of them as
NEMO_GYM_MAX_ROLLOUT_ATTEMPTS (nemo_gym 0.4.0 to 0.7.0). The rows are whole and on disk in the archive before they leave
the failures file. A `forget` that was stopped in between finds its archive again.

The archive is `<name of the failures file>.forgotten-N`: a name that no glob over `*.jsonl` takes for results.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import durable
from .lines import Key, key_of, repair_tail, rows
from .lock import Lock, holding
from .names import failures_path
from .written import dispatch_of

Chosen = Callable[[Mapping[str, Any]], bool]


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What was archived: rows by class, and how many of each class stay."""

    archived: Mapping[str, int] = field(default_factory=dict)
    remaining: Mapping[str, int] = field(default_factory=dict)
    archive: Path | None = None
    dispatches: tuple[str, ...] = ()
    """Those of all archived rows, of earlier times too: what the collector is to be told."""
    unnamed: tuple[Key, ...] = ()
    """Rollouts with an archived row that names no dispatch, an agent's own, and none left in the file."""


def choose(classes: Iterable[str], tasks: Iterable[int]) -> Chosen:
    """Rows of one of these classes or tasks."""
    named, numbers = frozenset(classes), frozenset(tasks)
    return lambda row: class_of(row) in named or row.get("_ng_task_index") in numbers


def class_of(row: Mapping[str, Any]) -> str:
    return str(row.get("_ng_failure_class") or "none")


def forget(output: Path, chosen: Chosen, *, lock: Lock | None = None) -> Forgotten:
    """Archive the chosen rows. Raises `Held` and `ResultsError`."""
    with holding(output, lock):
        path = failures_path(output).resolve()
        for place in (path, _unnumbered(path)):
            durable.clear(place)
        repair_tail(path)
        found = foresee(output, chosen)
        if not found.archived:
            return _with_archives(output, found, chosen)
        like = durable.check_replaceable(path)
        archive = _archive(path, chosen)
        durable.replace(durable.write_beside(path, _raw(path, chosen, leaving=False), like), path)
        return _with_archives(output, found, chosen, archive)


def foresee(output: Path, chosen: Chosen) -> Forgotten:
    """What `forget` would do; touches nothing and takes no lock."""
    archived: Counter[str] = Counter()
    remaining: Counter[str] = Counter()
    for _, _, row in rows(failures_path(output)):
        if row is not None:
            (archived if chosen(row) else remaining)[class_of(row)] += 1
    return Forgotten(archived, remaining)


def _unnumbered(failures: Path) -> Path:
    return failures.with_name(f"{failures.name}.forgotten")


def archives(failures: Path) -> list[Path]:
    """The archives there are, in their order."""
    found, number = [], 1
    while (path := failures.with_name(f"{failures.name}.forgotten-{number}")).exists():
        found.append(path)
        number += 1
    return found


def _archive(failures: Path, chosen: Chosen) -> Path:
    """The archive of exactly these rows: the newest one, where a `forget` that was stopped has made it."""
    temporary = durable.write_beside(_unnumbered(failures), _raw(failures, chosen, leaving=True))
    there = archives(failures)
    try:
        if there and _equal(temporary, there[-1]):
            durable.discard(temporary)
            return there[-1]
        target = failures.with_name(f"{failures.name}.forgotten-{len(there) + 1}")
        durable.replace(temporary, target)
    except BaseException:
        durable.discard(temporary)
        raise
    return target


def _raw(path: Path, chosen: Chosen, *, leaving: bool) -> Iterator[bytes]:
    """The lines that leave, or those that stay; one that is no row stays."""
    return (raw for _, raw, row in rows(path) if (row is not None and chosen(row)) == leaving)


def _equal(one: Path, other: Path) -> bool:
    size = one.stat().st_size
    if other.stat().st_size != size:
        return False
    return all(a == b for a, b in zip(durable.piece(one, 0, size), durable.piece(other, 0, size), strict=True))


def _with_archives(output: Path, found: Forgotten, chosen: Chosen, archive: Path | None = None) -> Forgotten:
    path = failures_path(output).resolve()
    dispatches: dict[str, None] = {}
    unnamed: dict[Key, None] = {}
    for each in archives(path):
        for _, _, row in rows(each):
            if row is None or not chosen(row):
                continue
            dispatch, key = dispatch_of(row), key_of(row)
            if dispatch is not None:
                dispatches[dispatch] = None
            elif key is not None:
                unnamed[key] = None
    for _, _, row in rows(path) if unnamed or dispatches else ():
        if row is not None:
            unnamed.pop(key_of(row) or (-1, -1, None), None)
            dispatches.pop(dispatch_of(row) or "", None)
    return Forgotten(found.archived, found.remaining, archive, tuple(dispatches), tuple(unnamed))
