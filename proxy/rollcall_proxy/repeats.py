"""Exchanges of one call that end badly in one way, again and again: the first is told at once, the others are counted.

What is counted is told as one tag, that of the last with their number: from time to time, and before anything is
judged. A verdict asks how a call ended and not how often, so nothing is lost with what a kill finds untold but a count.
The times between grow with the age of the loop: ten thousand rounds in an hour are about seventy events.

Calls of nobody are told apart by server, method, path and minute, as the collector does. Their number is what people
are shown, so a few are told at once.
"""

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from rollcall_collector.contract.exchange import Tag
from rollcall_collector.contract.repeating import call_of, way_of

_REMEMBERED = 50_000
"""Calls of which it is remembered that they were told; the oldest are forgotten, and told at once again."""
_AT_LEAST_S, _AT_MOST_S = 2.0, 60.0
_SHARE = 0.1
"""What was counted waits for this share of the loop's age, within these bounds."""
_NOBODYS = 10
"""Repeats of a call of nobody that are told at once."""

_Key = tuple[str, str, str]
"""(dispatch or "", call, way)"""


@dataclass(slots=True)
class _Loop:
    """A call that ends badly again and again: when it began to, when it was last told, and what is to be told.

    `repeats` is how often it has been repeated.
    """

    began_at: float
    told_at: float
    repeats: int = 0
    last: Tag | None = None
    count: int = 0

    def is_due(self, now: float) -> bool:
        return now - self.told_at >= min(max(_AT_LEAST_S, (now - self.began_at) * _SHARE), _AT_MOST_S)

    def told(self, now: float) -> Tag | None:
        """What is to be told, as one tag; from now on it is."""
        last, count = self.last, self.count
        self.told_at, self.last, self.count = now, None, 0
        return None if last is None else replace(last, count=count)


class Repeats:
    """Knows which tags repeat one that has been told."""

    def __init__(self) -> None:
        self._loops: OrderedDict[_Key, _Loop] = OrderedDict()
        self._waiting: dict[str, dict[_Key, None]] = {}

    def take(self, tag: Tag, now: float, first: Tag | None = None, at_once: bool = False) -> list[Tag]:
        """What is to be told at once: nothing where `tag` only repeats, unless `at_once` says that it does more.

        `first` is the first of its call and way, where it is of a dispatch and that has been told.
        """
        if first is None and tag.dispatch is not None:
            return [tag]
        key = tag.dispatch or "", call_of(tag), way_of(tag)
        loop, told = self._loops.get(key), list[Tag]()
        if loop is None:
            began_at = now if first is None else first.ended_at
            loop = self._loops[key] = _Loop(began_at, began_at)
            told = self._forget_oldest(now)
            if first is None:
                return [*told, tag]
        self._loops.move_to_end(key)
        loop.last, loop.count, loop.repeats = tag, loop.count + 1, loop.repeats + 1
        self._waiting.setdefault(key[0], {})[key] = None
        few = tag.dispatch is None and loop.repeats <= _NOBODYS
        return [*told, *self._told([key], now)] if at_once or few else told

    def of(self, dispatch: str, now: float) -> list[Tag]:
        """What is to be told of a dispatch."""
        return self._told(list(self._waiting.get(dispatch, ())), now)

    def due(self, now: float) -> list[Tag]:
        """What has waited for long enough."""
        waiting = [key for keys in self._waiting.values() for key in keys]
        return self._told([key for key in waiting if self._loops[key].is_due(now)], now)

    def all(self, now: float) -> list[Tag]:
        """All that is to be told."""
        return [tag for dispatch in list(self._waiting) for tag in self.of(dispatch, now)]

    def _told(self, keys: Iterable[_Key], now: float) -> list[Tag]:
        found = []
        for key in keys:
            if (tag := self._loops[key].told(now)) is not None:
                found.append(tag)
            waiting = self._waiting[key[0]]
            del waiting[key]
            if not waiting:
                del self._waiting[key[0]]
        return found

    def _forget_oldest(self, now: float) -> list[Tag]:
        """What is to be told of those that are forgotten."""
        told: list[Tag] = []
        while len(self._loops) > _REMEMBERED:
            key = next(iter(self._loops))
            if key in self._waiting.get(key[0], ()):
                told += self._told([key], now)
            del self._loops[key]
        return told
