"""Which exchanges are one call.

A retry is an exchange of the same dispatch with the same server, method, path with query and body digest that
begins after the earlier one ended badly. Overlapping exchanges are calls of their own; one success heals one call.
Because only calls that stand failed can be taken up again, nothing is remembered of calls that went well.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

CallKey = tuple[str, str, str, bytes]
"""(server, method, path with query, body digest)"""


@dataclass(slots=True)
class FailedCall:
    """A call whose last exchange ended badly at `ended_at`."""

    id: str
    ended_at: float


@dataclass(slots=True)
class Calls:
    """The calls of one dispatch that stand failed."""

    failed: dict[CallKey, list[FailedCall]] = field(default_factory=dict)

    def ended_badly(self, key: CallKey, started_at: float, ended_at: float, new_id: Callable[[], str]) -> str:
        """Return the id of the call that this bad exchange belongs to, a new one unless it was a retry."""
        call = self._taken_up(key, started_at)
        if call is None:
            call = FailedCall(new_id(), ended_at)
            self.failed.setdefault(key, []).append(call)
        call.ended_at = ended_at
        return call.id

    def ended_well(self, key: CallKey, started_at: float) -> str | None:
        """Return the id of the call that this good exchange has healed, or None."""
        call = self._taken_up(key, started_at)
        if call is None:
            return None
        remaining = [other for other in self.failed.pop(key) if other is not call]
        if remaining:
            self.failed[key] = remaining
        return call.id

    def _taken_up(self, key: CallKey, started_at: float) -> FailedCall | None:
        """The earliest failed call of this key that had ended before the exchange began."""
        calls = self.failed.get(key)
        if calls is None:
            return None
        ended = [call for call in calls if call.ended_at <= started_at]
        return min(ended, key=lambda call: call.ended_at, default=None)
