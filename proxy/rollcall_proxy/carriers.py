"""What names a dispatch without having been minted for it: Gym's rollout ids, trace ids.

A carrier is `<kind>:<value>`. It is bound to a dispatch when an outermost `/run` shows it, and is no carrier any
more, from then on and for what it had bound, once several rollouts turn out to share it. A trace id that was shared
stays so; Gym's rollout ids repeat in every run, so one that was shared may serve again when all that shared it have
ended. A dispatch that has ended keeps its carriers until another takes them over: its clean-up is its own.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

_REMEMBERED = 200_000
"""Carriers that are kept at the most, the oldest are forgotten."""


@dataclass(slots=True)
class _Binding:
    dispatch: str | None
    open: set[str] = field(default_factory=set)
    shared: bool = False


class Carriers:
    """Carriers and the dispatches that they name."""

    def __init__(self) -> None:
        self._bindings: OrderedDict[str, _Binding] = OrderedDict()
        self._held: dict[str, set[str]] = {}

    def bind(self, carrier: str, dispatch: str, lasting: bool = False) -> tuple[str, ...]:
        """Let a carrier name a dispatch; what it had named until now, where it turns out to be shared."""
        binding = self._bindings.setdefault(carrier, _Binding(None))
        self._bindings.move_to_end(carrier)
        named, others = binding.dispatch, binding.open - {dispatch}
        clash = named not in (None, dispatch) and (lasting or named in others)
        binding.shared = clash or (binding.shared and (lasting or bool(others)))
        binding.dispatch = None if binding.shared else dispatch
        self._held.setdefault(dispatch, set()).add(carrier)
        if not lasting:
            binding.open.add(dispatch)
        self._forget_oldest()
        return (named,) if clash and named else ()

    def find(self, carrier: str) -> str | None:
        """The one dispatch that a carrier names."""
        binding = self._bindings.get(carrier)
        return binding.dispatch if binding else None

    def is_open(self, dispatch: str) -> bool:
        """Whether a dispatch that a carrier names has not ended."""
        return dispatch in self._held

    def release(self, dispatch: str) -> None:
        """A dispatch has ended."""
        for carrier in self._held.pop(dispatch, ()):
            binding = self._bindings.get(carrier)
            if binding is not None:
                binding.open.discard(dispatch)

    def _forget_oldest(self) -> None:
        while len(self._bindings) > _REMEMBERED:
            self._bindings.popitem(last=False)
