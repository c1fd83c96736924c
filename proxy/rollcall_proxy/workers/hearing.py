"""What the first process makes of what its workers tell of their exchanges: as if they had been its own."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from rollcall_collector.contract.exchange import Tag

from ..carriers import Carriers
from ..clock import now
from ..departing import Departure
from ..exchange import exchange_ids
from ..ledger import Ledger
from ..owners import Head, find_owner
from ..recording import Records, until
from ..spans import Outlet
from ..upstream import Upstream
from ..watch import Watch
from .words import bytes_from, good_from, key_from, tag_from

WORKER = "rollcall worker"
"""Stands for a server in the tag of a dispatch whose calls may have ended with a worker."""


@dataclass(kw_only=True, slots=True)
class Hearing:
    """Takes in what is told."""

    records: Records
    ledger: Ledger
    carriers: Carriers
    watch: Watch
    spans: Outlet
    _ids: Iterator[str] = field(default_factory=exchange_ids)

    def seen(self, counted: list[list[Any]], server: Callable[[int], Upstream]) -> None:
        """Exchanges that have begun."""
        for dispatch, number, caller, is_model_call, times in counted:
            upstream, run = server(number), self.ledger.saw(dispatch, is_model_call, times)
            upstream.used_at = now()
            if run is not None:
                self.watch.saw(upstream.name, upstream.kind, run, caller, times)

    def spanned(self, events: list[tuple[str, int, int]], data: bytes) -> None:
        """Events of spans: for each its dispatch, how many exchanges it tells of, and its length in the data."""
        at = 0
        for dispatch, count, length in events:
            self.spans.put(dispatch, data[at : at + length], count)
            at += length

    def ended(self, counted: list[Any]) -> None:
        """Exchanges that have ended, as a worker's `Exchanges` has counted them."""
        self.records.spans.measured.add(counted)

    async def bad(self, about: dict[str, Any], departure: Departure) -> str:
        """An exchange that did not end well; returns its call when its tag is stored."""
        tag, key = self._tag(about), key_from(about["key"])
        caused = await departure.caused(tag.what, about["leaving"], about["hint"])
        tag = self.records.called(replace(tag, shutdown=caused), key)
        await until(partial(self.records.keep, tag, key))
        return tag.call

    def good(self, about: dict[str, Any]) -> None:
        """An exchange that may have healed something."""
        self.records.heal(good_from(about))

    def not_inspected(self, about: dict[str, Any]) -> None:
        """A good exchange whose answer could not be read."""
        self.records.not_inspected(good_from(about))

    def cancelled(self, about: dict[str, Any]) -> None:
        """An exchange whose caller has left."""
        self.records.note(self._tag(about))

    def died(self, message: str, heard_at: float, servers: list[Upstream]) -> None:
        """A worker has died that was last heard at `heard_at`, and had connections to these servers' listeners.

        No dispatch has been judged since: that would have needed its answer.
        """
        for dispatch in self.ledger.open_dispatches():
            self.records.note(self._doubt(message, heard_at, dispatch, None))
        for upstream in servers:
            self.records.note(self._doubt(message, heard_at, None, upstream))

    def _tag(self, about: dict[str, Any]) -> Tag:
        value, named = about["tag"], about["named"]
        owner = find_owner(Head(bytes_from(named["path"]), named["fields"]), self.carriers)
        return tag_from(value if owner is None else value | {"conflict": owner.conflict})

    def _doubt(self, message: str, at: float, dispatch: str | None, upstream: Upstream | None) -> Tag:
        number = next(self._ids)
        return Tag(
            exchange=number,
            call=number,
            server=upstream.name if upstream else WORKER,
            kind=upstream.kind if upstream else "unknown",
            role="other",
            method="",
            path="",
            what="peer_drop",
            started_at=at,
            ended_at=at,
            depth=1,
            owner_by="none" if dispatch is None else "worker",
            dispatch=dispatch,
            message=message,
        )
