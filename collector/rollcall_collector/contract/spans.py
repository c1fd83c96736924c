"""What spans tell of a dispatch: its calls in order, and who made which on whose behalf."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

Call = dict[str, Any]
"""One exchange by name: what `exchange.Shared` and `exchange.Span` say of it, in the words of a tag, and `parent`, the
exchange on whose behalf it was made. `what` is empty for a good one, `ended_at` None while it is in flight."""

_SHARED = ("server", "kind", "role", "method", "path", "parent", "depth", "owner_by", "carrier")
_OWN = ("exchange", "started_at", "ended_at", "status", "what", "call")

OUTERMOST = "run"
"""The `owner_by` of a dispatch's own exchange, which nobody in the dispatch has made."""


def merged(told: Iterable[tuple[Sequence[Any], Sequence[Any]]], disowned: Collection[str] = ()) -> list[Call]:
    """The calls of a dispatch by their begin, from `(shared, spans)` of each event.

    An exchange is told once more when it has ended. Those that a carrier in `disowned` has named are left out.
    """
    found: dict[str, Call] = {}
    for shared, spans in told:
        named = [dict(zip(_SHARED, each, strict=True)) for each in shared]
        for number, *own in spans:
            call = dict(zip(_OWN, own, strict=True)) | named[number]
            known = found.get(call["exchange"])
            if known is None or known["ended_at"] is None:
                found[call["exchange"]] = call
    kept = (call for call in found.values() if not call["carrier"] or call["carrier"] not in disowned)
    return sorted(kept, key=lambda call: (call["started_at"], call["depth"], call["exchange"]))


def marked(calls: Sequence[Call], tags: Iterable[Mapping[str, Any]], cause: Mapping[str, Any] | None) -> list[Call]:
    """The calls with what the dispatch's tags know of them.

    `recovered` says that the call was repeated with success, `pardoned` by which rule it is no failure, and `rules`
    which of the user's rules held in its answer. `root_cause` says that it is what the dispatch has failed of: of the
    first call that the verdict's words describe, the last exchange.
    """
    about = {tag["call"]: tag for tag in tags}
    found = []
    for call in calls:
        tag = about.get(call["call"], {}) if call["what"] else {}
        known = {"recovered": bool(tag.get("recovered")), "pardoned": tag.get("pardoned")}
        found.append(call | known | {"rules": list(tag.get("rules") or ()), "root_cause": False})
    caused = (call for call in found if cause is not None and call["what"] and not call["recovered"])
    described = [call for call in caused if all(call[name] == (cause or {}).get(name) for name in _CAUSE)]
    if described:
        max((call for call in described if call["call"] == described[0]["call"]), key=_end)["root_cause"] = True
    return found


def _end(call: Call) -> float:
    return float(call["ended_at"] or 0.0)


_CAUSE = ("server", "role", "method", "path", "what", "status")


def tree(calls: Sequence[Call]) -> list[tuple[int, Call]]:
    """The calls with how deep each stands, every one below the one on whose behalf it was made, else in their order.

    One whose parent is not known (its owner was found by a carrier, or its parent was lost) stands below the
    dispatch's own exchange. Parents that name each other in a circle, which nothing but a forged owner does, end
    nowhere: each call comes once.
    """
    known = {call["exchange"]: call for call in calls}
    top = next((call["exchange"] for call in calls if call["owner_by"] == OUTERMOST), None)
    below: dict[str | None, list[Call]] = {}
    for call in calls:
        exchange = call["exchange"]
        parent = call["parent"] if call["parent"] in known and call["parent"] != exchange else top
        below.setdefault(None if exchange == top else parent, []).append(call)
    found = _walked(below, [(0, call) for call in below.get(None, ())])
    seen = {call["exchange"] for _, call in found}
    return found + [(0, call) for call in calls if call["exchange"] not in seen]


def _walked(below: Mapping[str | None, list[Call]], first: list[tuple[int, Call]]) -> list[tuple[int, Call]]:
    found, waiting = [], first[::-1]
    while waiting:
        depth, call = waiting.pop()
        found.append((depth, call))
        waiting += [(depth + 1, each) for each in reversed(below.get(call["exchange"], ()))]
    return found
