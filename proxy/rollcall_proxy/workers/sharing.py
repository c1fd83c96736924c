"""Which exchanges a worker does by itself: those whose owner a token names, whatever carriers are known, but for the
ones of which the first process keeps something: each way into or out of a dispatch, and what is judged in it. What a
web page sends, which has an Origin, is for the first process's door."""

from rollcall_collector.contract.exchange import Kind, Role

from ..owners import Head, Owner, by_token_alone, without_url_owner
from ..roles import role_of

_FIRST_PROCESS: frozenset[Role] = frozenset({"run", "verify", "aggregate_metrics"})


def workers_owner(head: Head, kind: Kind) -> Owner | None:
    """The owner of a request that a worker may answer, at a server of this kind; None where it must not."""
    if "origin" in head.fields or role_of(kind, without_url_owner(head.path)) in _FIRST_PROCESS:
        return None
    return by_token_alone(head)
