"""What a proxy needs to come back: kept beside the spool for each main port's address, taken over by the next there.

A successor opens the same listeners before it is ready, so that Gym's clients, which connect for ever, carry on. It
tells the collector which processes have died: nobody waits for the dispatches that these had open. A main port that
may be any free one has no successor. A listener that was last used a week before the others is not opened again: no
clock is asked, since one that has jumped must not close them all.
"""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated
from uuid import uuid4

from pydantic import Field, TypeAdapter, ValidationError
from rollcall_collector.contract.exchange import Kind

from .inheriting import new_line
from .keeping import keep, kept
from .sessions import SessionOfRun, unattached

_UNUSED_S = 7 * 86_400.0
"""Seconds after which a listener that others have outlived is forgotten; longer than runs are expected to last."""

_GONE = 100
"""Processes of which the collector is told at the most; they are told at each start until it has taken that in."""


@dataclass(frozen=True, slots=True)
class Place:
    """A server and the port of its listener; `session` is the one whose own the listener is."""

    name: str
    kind: Kind
    url: str
    port: Annotated[int, Field(gt=0, lt=65536)]
    used_at: float
    session: SessionOfRun | None = None


@dataclass(frozen=True, slots=True)
class Estate:
    """What a proxy leaves.

    `static` is the session of what is sent to servers that were named by hand, `references` say which servers can
    call which, `gone` names earlier processes of whose end the collector has yet to hear, `line` all of them and those
    to come: it stands in the ids of calls.
    """

    proxy: str
    static: SessionOfRun
    places: tuple[Place, ...] = ()
    references: dict[str, tuple[str, ...]] = field(default_factory=dict)
    gone: tuple[str, ...] = ()
    line: str = field(default_factory=new_line)


_ESTATE: TypeAdapter[Estate] = TypeAdapter(Estate)


class Succession:
    """Takes over what the last proxy at this address has left, and keeps what this one will leave.

    `proxy` is this process's id, `follows` says whether there was one before. `trouble` says why the file cannot be
    written.
    """

    def __init__(self, folder: Path, host: str, port: int) -> None:
        self.proxy = uuid4().hex[:16]
        self._path = folder / f"proxy-{host.replace(':', '_')}-{port}.json" if port else None
        left = None if self._path is None else _read(self._path)
        gone = () if left is None else (*left.gone, left.proxy)[-_GONE:]
        self.left = Estate(self.proxy, unattached()) if left is None else replace(left, proxy=self.proxy, gone=gone)
        self.follows = left is not None
        self.trouble: str | None = None
        self._estate: Estate | None = None
        self._keeping = asyncio.Lock()

    def to_open(self) -> list[Place]:
        """The listeners to open again."""
        lately = max((place.used_at for place in self.left.places), default=0.0) - _UNUSED_S
        return [place for place in self.left.places if place.used_at > lately]

    async def keep(self, places: Iterable[Place], references: Mapping[str, tuple[str, ...]]) -> None:
        """Keep these listeners and references."""
        await self._write(replace(self.left, places=tuple(places), references=dict(references)))

    async def told(self) -> None:
        """The collector has heard, or will hear from the spool, which processes are gone."""
        async with self._keeping:
            self.left = replace(self.left, gone=())
        if self._estate is not None:
            await self._write(replace(self._estate, gone=()))

    async def _write(self, estate: Estate) -> None:
        if self._path is None:
            return
        async with self._keeping:
            if estate != self._estate or self.trouble:
                value = _ESTATE.dump_python(estate, mode="json")
                self.trouble = await asyncio.to_thread(keep, self._path, value)
                self._estate = estate


def _read(path: Path) -> Estate | None:
    try:
        return _ESTATE.validate_python(kept(path))
    except ValidationError:
        return None


def sender_of(proxy: str) -> str:
    """The name under which a proxy sends its events, and of its spool."""
    return f"p-{proxy}"


def proxy_of(sender: str) -> str:
    """The proxy that has sent under this name."""
    return sender.removeprefix("p-")


def forget(folder: Path, host: str, port: int) -> None:
    """Nobody will come back to the listeners of this address."""
    (folder / f"proxy-{host.replace(':', '_')}-{port}.json").unlink(missing_ok=True)
