"""What processes write down of one rollout, told as a story: each step is a second later."""

from collections.abc import Sequence
from itertools import count
from typing import Any

from chaos.known import Known
from chaos.verdicts import Difference, differences

Row = dict[str, Any]
NAME, AGENT = "exec-0123456789ab", "steady_agent"
EXPECTED = {"agent_ref": {"name": AGENT}, "_ng_task_index": 3, "_ng_rollout_index": 0}
LIMIT_S = 30.0


class Story:
    """One execution of rollout 3-0, as attempt 0."""

    def __init__(self) -> None:
        self._records: list[Row] = []
        self._seconds, self._calls = count(1), count(1)
        self.note("sent", rollout=[AGENT, 3, 0], attempt=0)
        self.note("execution", execution=NAME, rollout=[AGENT, 3, 0], attempt=0)

    def note(self, kind: str, **what: Any) -> None:
        self._records.append({"is": kind, "at": float(next(self._seconds)), **what})

    def call(self, server: str, *, said: str | None = None, ok: bool = True, dies: bool = False, **more: Any) -> None:
        """An exchange: what its server said of it (nothing where it dies), and whether its caller got a good answer."""
        call = self.asks(server, **more)
        if not dies:
            self.note("said", call=call, what=said)
        self.note("got", call=call, ok=ok, status=200 if ok else 502)

    def asks(self, server: str, **more: Any) -> str:
        """An exchange that begins; its name."""
        call = f"{NAME}.{next(self._calls)}"
        key, depth = more.get("key", f"{NAME}>{server}"), more.get("depth", 2)
        self.note("asked", call=call, execution=NAME, key=key, server=server, path="/v1/responses", depth=depth)
        return call

    def waits(self, seconds: float) -> None:
        """Nothing is written down for so long."""
        self._seconds = count(next(self._seconds) + int(seconds))

    def happens(self, what: str, part: str) -> None:
        """An act, which lasts from the step before to the step behind."""
        now = next(self._seconds)
        self._records.append(
            {"is": "act", "at": float(now), "what": what, "part": part, "began": now - 1.5, "ended": now + 1.5}
        )

    def ends(self, how: str = "result", reward: float | None = 1.0) -> None:
        self.note("ended", execution=NAME, how=how, reward=reward)

    def received(self, *, omitted: bool = False) -> None:
        self.note("received", rollout=[AGENT, 3, 0], attempt=0, omitted=omitted, execution=NAME)

    def against(self, main: Sequence[Row] = (), failures: Sequence[Row] = ()) -> list[Difference]:
        """What is wrong with these files."""
        return list(differences([EXPECTED], list(main), list(failures), Known(self._records, LIMIT_S)))


def result(**more: Any) -> Row:
    return EXPECTED | {"execution": NAME, "reward": 1.0} | more


def failures(server: str = "policy_model", what: str = "http_status", names: str = NAME) -> list[Row]:
    """The rows of all three attempts; the first one's root cause as given. The others are the agent's, which died."""
    cause = {"root_cause": {"server": server, "what": what}, "tags": [{"excerpt": f"Hit an exception in {names}"}]}
    return [EXPECTED | {"_ng_failure_class": "agent_run_error", "_rollcall": cause}]
