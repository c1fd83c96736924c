"""One rollout's story as text: each dispatch, and below it the tree of its calls with their times.

Lines fit 80 columns but where a server's name or a path is long: these are whole, so that they can be searched for.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from .contract.spans import Call, tree
from .status_text import fitted, printable

Paint = Callable[[str, str], str]
"""(text, tone) to the text as it is printed. Tones: bad, mended, open, plain."""

_DEEPEST = 12
"""Steps of indentation at the most; deeper calls stand below each other."""


def plain(text: str, _: str) -> str:
    """No colours."""
    return text


def rollout_text(rollout: Mapping[str, Any], paint: Paint = plain) -> str:
    """The whole story of a rollout, as the API tells it."""
    lines = fitted(f"rollout {rollout['id']} of {rollout['benchmark']}: {rollout['state']}")
    lines += fitted(f"run {rollout['run']}")
    others = [name for name in rollout["benchmarks"] if name != rollout["benchmark"]]
    if others:
        lines += fitted(f"{', '.join(others)} also have a rollout {rollout['id']}: ask with their `benchmark`", "  ")
    for dispatch in rollout["dispatches"]:
        lines += ["", *_dispatch(dispatch, rollout["now"], paint)]
    if not rollout["dispatches"]:
        lines.append("no /run of it has been seen")
    return "\n".join(lines) + "\n"


def _dispatch(dispatch: Mapping[str, Any], now: float, paint: Paint) -> list[str]:
    """One dispatch; its times are None where only a failure row tells of it."""
    calls, state, is_open = dispatch["spans"], dispatch["state"], dispatch["state"] == "running"
    said = [state + (f" ({dispatch['class']})" if dispatch["class"] else ""), *_facts(dispatch, now)]
    began = dispatch["started_at"]
    first = min((call["started_at"] for call in calls), default=0.0) if began is None else began
    at = "" if began is None else time.strftime(", began %Y-%m-%d %H:%M:%S UTC", time.gmtime(began))
    lines = fitted(f"attempt {dispatch['attempt']}: {', '.join(said)}")
    lines += fitted(f"dispatch {dispatch['dispatch']}{at}", "  ")
    if dispatch["trace"]:
        lines += fitted(f"trace {dispatch['trace']}", "  ")
    lines += _cause(dispatch["root_cause"])
    lines += _calls(calls, first, now if is_open else None, paint)
    return [*lines, *_missing(dispatch)]


def _facts(dispatch: Mapping[str, Any], now: float) -> Iterator[str]:
    began, ended = dispatch["started_at"], dispatch["ended_at"]
    if began is not None and ended is not None:
        yield f"took {duration(ended - began)}"
    elif began is not None and dispatch["state"] == "running":
        yield f"for {duration(now - began)}"
    if dispatch.get("provisional"):
        yield "answered by the proxy alone, while the collector was away"


def _cause(cause: Mapping[str, Any] | None) -> list[str]:
    if not cause:
        return []
    what = " ".join(str(cause[name]) for name in ("what", "status") if cause.get(name))
    said = str(cause.get("message") or cause.get("excerpt") or "").strip().splitlines()
    called = f"{cause.get('role', '')} call to {cause.get('server', '')}".strip()
    return fitted(f"root cause: {called}: {what}" + (f" ({said[0][:200]})" if said else ""), "  ")


def _calls(calls: Sequence[Call], began: float, now: float | None, paint: Paint) -> list[str]:
    """A line for each call; `now` is None where the dispatch has ended."""
    if not calls:
        return []
    lines = [f"{'begins':>9} {'lasts':>9}  call"]
    for depth, call in tree(calls):
        at = duration(max(0.0, call["started_at"] - began))
        line = f"{at:>9} {_lasts(call):>9}  {'  ' * min(depth, _DEEPEST)}{_described(call, now)}"
        lines.append(paint(printable(line), _tone(call)))
    return lines


def _lasts(call: Call) -> str:
    return "…" if call["ended_at"] is None else duration(call["ended_at"] - call["started_at"])


def _described(call: Call, now: float | None) -> str:
    words = [call["role"], call["server"], call["method"], call["path"]]
    if call["what"] != "http_status":
        words.append(call["what"])
    words.append("" if call["status"] is None else str(call["status"]))
    if call["ended_at"] is None:
        words.append("its end was not seen" if now is None else f"… since {duration(now - call['started_at'])}")
    return " ".join([*filter(None, words), *_marks(call)])


def _marks(call: Call) -> Iterable[str]:
    if call["recovered"]:
        yield "(recovered)"
    if call["root_cause"]:
        yield "(root cause)"
    if call["pardoned"]:
        yield f"(no failure: {call['pardoned']})"
    elif call["rules"]:
        yield f"(rule {', '.join(call['rules'])})"


def _tone(call: Call) -> str:
    if call["ended_at"] is None:
        return "open"
    if not call["what"]:
        return "plain"
    return "mended" if call["recovered"] or call["pardoned"] or call["what"] == "cancelled" else "bad"


def _missing(dispatch: Mapping[str, Any]) -> list[str]:
    """Why there may be more calls than are shown."""
    lines, shown, known = [], len(dispatch["spans"]), dispatch["spans_known"]
    if shown < known:
        lines += fitted(f"the first {shown} of {known} calls are shown: ask for more with spans={known}", "  ")
    if dispatch["spans_lost"]:
        lines += fitted(f"{dispatch['spans_lost']} calls not kept", "  ")
    if not known and not dispatch["spans_lost"]:
        lines += fitted("no calls are kept of it; what went wrong is in its tags", "  ")
    return lines


def duration(seconds: float) -> str:
    """A time span for people: `83 ms`, `1.24 s`, `412 s`, `25 min`, `3 h 20 min`."""
    seconds = max(0.0, seconds)
    if seconds < 0.9995:
        thousandths = seconds * 1000
        return f"{thousandths:.0f} ms" if thousandths >= 9.95 or thousandths < 0.05 else f"{thousandths:.1f} ms"
    if seconds < 599.5:
        return f"{seconds:.{2 if seconds < 9.995 else 1 if seconds < 99.95 else 0}f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
