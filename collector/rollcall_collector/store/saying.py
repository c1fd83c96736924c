"""What an event says: its fields without those that have their default, for a JSON column."""

from collections.abc import Collection
from dataclasses import MISSING, fields
from operator import attrgetter
from typing import Any


class Saying:
    """Reads the fields of one kind of event, but for those that have columns of their own.

    Fields that have no default are taken together, and those that have one too: an event has some twenty.
    """

    def __init__(self, of: type, columns: Collection[str] = ()) -> None:
        own = [each for each in fields(of) if each.name not in ("event", *columns)]
        self._always = [each.name for each in own if each.default is MISSING]
        self._others = [each.name for each in own if each.default is not MISSING]
        self._defaults = [each.default for each in own if each.default is not MISSING]
        self._get_always, self._get_others = attrgetter(*self._always), attrgetter(*self._others)

    def __call__(self, event: Any) -> dict[str, Any]:
        """What it says."""
        said = dict(zip(self._always, self._get_always(event), strict=True))
        for name, value, default in zip(self._others, self._get_others(event), self._defaults, strict=True):
            if value is not default and value != default:
                said[name] = value
        return said
