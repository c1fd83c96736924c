"""What a service has refused: each is counted, and said once for each peer and reason."""

import logging
from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import CounterMetricFamily, Metric

from .access import Reason

log = logging.getLogger(__name__)

_SAID = 1000
"""Peers and reasons that are said; a network that is full of strangers must fill neither the log nor the memory."""


class Refusals:
    """Counts what is refused, by reason."""

    def __init__(self) -> None:
        self._numbers: Counter[Reason] = Counter()
        self._said: set[tuple[Reason, str]] = set()

    def note(self, reason: Reason, peer: str, text: str) -> None:
        """A request or a connection of this peer's was refused, with this text."""
        self._numbers[reason] += 1
        known = (reason, text if reason == "user" else peer)  # users of one machine have one address
        if known in self._said or len(self._said) >= _SAID:
            return
        self._said.add(known)
        more = "; further peers are only counted" if len(self._said) == _SAID else ""
        what = f"refused {peer} ({reason}): {text}; this peer's next ones are only counted{more}"
        log.warning("%s", "".join(each if each.isprintable() else "?" for each in what))  # strangers have words in it

    def collect(self) -> Iterator[Metric]:
        """The numbers."""
        text = "Requests and connections refused, by reason."
        made = CounterMetricFamily("rollcall_refused", text, labels=["reason"])
        for reason, number in sorted(self._numbers.items()):
            made.add_metric([reason], number)
        yield made
