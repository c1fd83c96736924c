"""Which exchanges are one call.

A retry is an exchange of the same dispatch with the same server, method, path with query and body digest that
begins after the earlier one ended badly. Overlapping exchanges are calls of their own; one success heals one call.
Because only calls that stand failed can be taken up again, nothing is remembered of calls that went well.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar, cast

CallKey = tuple[str, str, str, bytes]
"""(server, method, path with query, body digest)"""


@dataclass(slots=True, eq=False)
class FailedCall:
    """A call whose last exchange ended badly at `ended_at`; `alike` is an older one of its key that stands failed."""

    id: str
    ended_at: float
    alike: "FailedCall | None" = field(default=None, init=False)


Failed = TypeVar("Failed", bound=FailedCall)


@dataclass(slots=True)
class Calls(Generic[Failed]):
    """The calls of one dispatch that stand failed; `failed` has the youngest of each key.

    What is kept of a call is one object: of a run whose servers fail there are many.
    """

    failed: dict[CallKey, Failed] = field(default_factory=dict)

    def __iter__(self) -> Iterator[tuple[CallKey, Failed]]:
        """Each call that stands failed, with its key."""
        for key in self.failed:
            for call in self.of(key):
                yield key, call

    def of(self, key: CallKey) -> Iterator[Failed]:
        """Those of one key."""
        call = self.failed.get(key)
        while call is not None:
            yield call
            call = cast("Failed | None", call.alike)

    def add(self, key: CallKey, call: Failed) -> None:
        """One more call stands failed."""
        call.alike = self.failed.get(key)
        self.failed[key] = call

    def ended_badly(self, key: CallKey, started_at: float, ended_at: float, new: Callable[[], Failed]) -> Failed:
        """Return the call that this bad exchange belongs to, a new one unless it was a retry."""
        call = self._taken_up(key, started_at)
        if call is None:
            call = new()
            self.add(key, call)
        call.ended_at = ended_at
        return call

    def ended_well(self, key: CallKey, started_at: float) -> Failed | None:
        """Return the call that this good exchange has healed, or None."""
        call = self._taken_up(key, started_at)
        if call is None:
            return None
        others = [other for other in self.of(key) if other is not call]
        del self.failed[key]
        for other in others[::-1]:
            self.add(key, other)
        return call

    def _taken_up(self, key: CallKey, started_at: float) -> Failed | None:
        """The earliest failed call of this key that had ended before the exchange began."""
        if key not in self.failed:
            return None
        ended = [call for call in self.of(key) if call.ended_at <= started_at]
        return min(reversed(ended), key=lambda call: call.ended_at, default=None)
