"""What a worker knows of calls that stand failed: enough to tell which good exchange may heal one.

It may hold calls that have been healed meanwhile, never the other way round: the ledger decides.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from rollcall_collector.contract.calls import CallKey

from ..exchange import Exchange
from ..inheriting import inherited, is_inherited
from ..roles import MODEL_ROLES

_REMEMBERED = 200_000
"""Dispatches that are kept at the most, the oldest are forgotten."""


@dataclass(slots=True)
class _Page:
    """One dispatch's: the keys of its calls, and for each server when the last of its model calls failed.

    `inherits`: among them are keys of calls that the last proxy here has seen.
    """

    keys: set[CallKey] = field(default_factory=set)
    inherits: bool = False
    failed_at: dict[str, float] = field(default_factory=dict)


class Standing:
    """The calls that stand failed, of all dispatches."""

    def __init__(self) -> None:
        self._pages: OrderedDict[str, _Page] = OrderedDict()

    def failed(self, dispatch: str, key: CallKey, generating: bool, ended_at: float) -> None:
        """A call stands failed; `generating`: a model's."""
        page = self._pages.setdefault(dispatch, _Page())
        page.keys.add(key)
        page.inherits = page.inherits or is_inherited(key)
        if generating:
            page.failed_at[key[0]] = max(ended_at, page.failed_at.get(key[0], 0.0))
        while len(self._pages) > _REMEMBERED:
            self._pages.popitem(last=False)

    def over(self, dispatch: str) -> None:
        """A dispatch has ended."""
        self._pages.pop(dispatch, None)

    def may_heal(self, exchange: Exchange) -> bool:
        """Whether a good exchange may heal a call, or give a good answer after others have failed."""
        page = self._pages.get(exchange.dispatch or "")
        if page is None:
            return False
        key = exchange.key()
        stands = key in page.keys or (page.inherits and inherited(exchange.dispatch or "", key) in page.keys)
        return stands or (exchange.role in MODEL_ROLES and self._outlives(page, exchange))

    def _outlives(self, page: _Page, exchange: Exchange) -> bool:
        """Once one that began after the last failure has been told, no other need be."""
        failed_at = page.failed_at.get(exchange.upstream.name)
        if failed_at is not None and failed_at <= exchange.started_at:
            del page.failed_at[exchange.upstream.name]
        return failed_at is not None
