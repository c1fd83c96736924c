"""The tags of dispatches. Exchanges of one call that end badly in one way are one record: count, first and last.

Those of nobody are folded by server, method, path and minute.

An endless loop of 429 costs one record, and judging it gives what judging each exchange would give: a verdict asks
which call failed first and how its last exchange ended, so the first and the last are all that it needs. A tag that
ended after the outermost answer began is never folded into one that ended before.
"""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, and_, bindparam, case, func, null, select, update

from ..contract.exchange import CarrierShared, Outlived, Recovered, Tag
from ..contract.repeating import call_of, way_of
from ..contract.saying import Saying
from ..contract.verdict import Kept
from .bulk import insert_new_rows
from .dialect import among, insert
from .schema import JSON, tags
from .working import portions

Change = tuple[str, dict[str, Any]]
"""What is done to the tags, and with which values; in the order of the events."""

_SAID = Saying(Tag)
_LAST = ("exchange", "started_at", "ended_at", "message", "excerpt")
"""What the last exchange of a record has of its own."""


def tag_row(tag: Tag, owned: bool, now: float | None, answer_began_at: float | None = None) -> dict[str, Any]:
    """The record of a tag; `owned`: its dispatch is known, whose answer began at a time, where it has ended."""
    late = answer_began_at is not None and tag.ended_at > answer_began_at
    return {
        "claimed": tag.dispatch or "",
        "call": _short(call_of(tag)),
        "fold": _short(way_of(tag, late)),
        "dispatch": tag.dispatch if owned else None,
        "exchange": tag.exchange,
        "last_exchange": None,
        "count": tag.count,
        "carrier": tag.carrier,
        "server": tag.server,
        "ended_at": tag.ended_at,
        "last_at": tag.ended_at,
        "received_at": now,
        "tag": _SAID(tag),
        "last": None,
        "blameless": tag.what == "cancelled" or tag.role == "aggregate_metrics",
    }


class Told:
    """Tags of dispatches that have begun in a batch, as long as the batch alone tells of them: a verdict needs no look
    into the database for these.

    What changes tags that are there, or folds one into another, ends that for its dispatch.
    """

    def __init__(self) -> None:
        self._by_record: dict[str, dict[tuple[str, str], Tag]] = {}

    def begins(self, dispatch: str) -> None:
        """No tag of it has come before."""
        self._by_record[dispatch] = {}

    def takes(self, tag: Tag, row: Mapping[str, Any]) -> None:
        """A tag, with its record."""
        if tag.dispatch is not None and (known := self._by_record.get(tag.dispatch)) is not None:
            record = row["call"], row["fold"]
            if record in known:
                self.forgets(tag.dispatch)
            known[record] = tag

    def forgets(self, *dispatches: str) -> None:
        """More becomes of their tags than that they come."""
        for each in dispatches:
            self._by_record.pop(each, None)

    def of(self, dispatch: str) -> list[Kept] | None:
        """All of its tags, in the order in which they are read from the database; None where it has to be asked."""
        known = self._by_record.get(dispatch)
        if known is None:
            return None
        return [Kept(tag) for tag in sorted(known.values(), key=lambda tag: (tag.ended_at, tag.exchange))]


def _short(name: str) -> str:
    """PostgreSQL's indexes take 2,704 bytes."""
    return name if len(name) <= 200 else hashlib.blake2b(name.encode(), digest_size=16).hexdigest()


def recovery(event: Recovered) -> dict[str, Any]:
    return {"b_claimed": event.dispatch, "b_call": event.call, "b_at": event.ended_at}


def outliving(event: Outlived) -> list[dict[str, Any]]:
    return [{"b_claimed": event.dispatch, "b_call": call, "b_at": event.ended_at} for call in event.calls]


def freeing(event: CarrierShared) -> list[dict[str, Any]]:
    return [{"b_claimed": dispatch, "b_carrier": event.carrier} for dispatch in event.dispatches]


def write(connection: Connection, changes: Iterable[Change]) -> None:
    """Do these changes in their order, those of one kind that follow each other together."""
    for what, alike in groupby(changes, key=itemgetter(0)):
        rows = [values for _, values in alike]
        if what == "tag":
            _add(connection, _folded(rows))
        else:
            connection.execute(_STATEMENTS[what], rows)


def kept_tags(connection: Connection, dispatches: Iterable[str], told: Told) -> dict[str, list[Kept]]:
    """All tags of these dispatches with what came of their calls; two for a record of several exchanges."""
    kept = {dispatch: told.of(dispatch) for dispatch in dispatches}
    found: dict[str, list[Any]] = {dispatch: [] for dispatch, tags in kept.items() if tags is None}
    for some in portions(found):
        for row in connection.execute(_KEPT, {"some": some}):
            found[row.dispatch].append(row)
    return {dispatch: _kept(found[dispatch]) if tags is None else tags for dispatch, tags in kept.items()}


_KEPT = (
    select(*(tags.c[name] for name in ("dispatch", "call", "recovered_at", "outlived_at", "count", "tag", "last")))
    .where(among(tags.c.claimed), tags.c.dispatch.is_not(None))
    .order_by(tags.c.ended_at, tags.c.exchange)
)


def _kept(rows: Sequence[Any]) -> list[Kept]:
    # A call has recovered as a whole, also where a tag of it was delivered afterwards.
    recovered = {row.call: row.recovered_at for row in rows if row.recovered_at is not None}
    return [Kept(tag, recovered.get(row.call), row.outlived_at) for row in rows for tag in first_and_last(row)]


def first_and_last(row: Any) -> list[Tag]:
    """The exchanges of a record that are kept."""
    first = tag_of(row.tag)
    return [first] if row.last is None else [first, replace(first, **row.last, count=row.count - first.count)]


def tag_of(value: dict[str, Any]) -> Tag:
    """The tag that a JSON column holds."""
    return Tag(**(value | {"rules": tuple(value.get("rules", ()))}))


def _folded(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """One row for each record, since a row that a statement changes often costs the database much."""
    found: dict[tuple[str, str, str], dict[str, Any]] = {}
    for row in rows:
        key = row["claimed"], row["call"], row["fold"]
        if key in found:
            _repeat(found[key], row)
        else:
            found[key] = row
    return list(found.values())


def _repeat(row: dict[str, Any], again: dict[str, Any]) -> None:
    if again["exchange"] not in (row["exchange"], row["last_exchange"]):
        row["count"] += again["count"]
        row["last"], row["last_at"] = _own(again["tag"]), again["last_at"]
        row["last_exchange"] = again["exchange"]


def _own(tag: dict[str, Any]) -> dict[str, Any]:
    return {name: tag.get(name, "") for name in _LAST}


def _add(connection: Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Most tags are of calls that have not failed before; adding the same a second time changes nothing."""
    if insert_new_rows(connection, tags, rows) < len(rows):
        connection.execute(_adding(connection), [row | {"b_last": row["last"] or _own(row["tag"])} for row in rows])


def _adding(connection: Connection) -> Any:
    """Insert a record, or note that its exchange has repeated; one that is told twice counts once."""
    into = insert(connection, tags)
    new = into.excluded
    failed_since = and_(tags.c.outlived_at.is_not(None), new.last_at > tags.c.outlived_at)
    return into.on_conflict_do_update(
        index_elements=["claimed", "call", "fold"],
        set_={
            "count": tags.c.count + new.count,
            "last_at": new.last_at,
            "received_at": new.received_at,
            "last": bindparam("b_last", type_=JSON),
            "last_exchange": func.coalesce(new.last_exchange, new.exchange),
            "outlived_at": case((failed_since, null()), else_=tags.c.outlived_at),
        },
        where=and_(new.exchange != tags.c.exchange, new.exchange.is_distinct_from(tags.c.last_exchange)),
    )


_CALL = (tags.c.claimed == bindparam("b_claimed"), tags.c.dispatch.is_not(None), tags.c.call == bindparam("b_call"))
_ORPHANS = (tags.c.claimed == bindparam("b_claimed"), tags.c.dispatch.is_(None))
_BOUND = (tags.c.claimed == bindparam("b_claimed"), tags.c.carrier == bindparam("b_carrier"))
_STATEMENTS = {
    "begun": update(tags).where(*_ORPHANS).values(dispatch=tags.c.claimed),
    "recovered": update(tags).where(*_CALL).values(recovered_at=bindparam("b_at")),
    "outlived": update(tags).where(*_CALL, tags.c.outlived_at.is_(None)).values(outlived_at=bindparam("b_at")),
    "shared": update(tags).where(*_BOUND).values(dispatch=None),
}
