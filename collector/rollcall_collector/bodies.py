"""What requests to the collector carry, and how a wrong one is refused: with the field, the value and the cause."""

from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from aiohttp import web
from pydantic import Field, TypeAdapter, ValidationError

from .contract.exchange import Event, FilePath, Id, Name
from .serving import Problem, read_json
from .store.placing import RolloutOf
from .store.writing import Index, Session

Result = TypeVar("Result")


EVENTS_TOGETHER = 10_000
"""Events in a batch at the most; proxies send 512."""


@dataclass(frozen=True, slots=True)
class Batch:
    """Events of one sender, numbered from `first` on in the order in which they happened."""

    sender: Id
    first: Annotated[int, Field(ge=1, le=2**53)]
    events: Annotated[list[Event], Field(max_length=EVENTS_TOGETHER)]


@dataclass(frozen=True, slots=True)
class Expected:
    """The rollouts of a run: (benchmark, task index, rollout index, stage index or null)."""

    session: Id
    source: FilePath
    digest: Name
    rollouts: list[tuple[Name, Index, Index, Index | None]]


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A sign of life of a session: `running`, or `ended`."""

    state: str


@dataclass(frozen=True, slots=True)
class Moved:
    """Dispatches whose rows have been moved into the failures file, and into the results."""

    to_failures: list[Id]
    to_results: list[Id]


@dataclass(frozen=True, slots=True)
class Healed:
    """Rollouts that a `gym eval reverify` has scored; `output` is the file it wrote."""

    session: Id
    rollouts: list[RolloutOf]
    output: FilePath = ""


@dataclass(frozen=True, slots=True)
class Forgotten:
    """Dispatches whose failure rows have been archived."""

    dispatches: list[Id]


@dataclass(frozen=True, slots=True)
class Reapplied:
    """A policy to judge a run again under; `dry_run` only says what would become of it."""

    policy: dict[str, Any]
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Acceptance:
    """What a person accepts of a run, and why."""

    what: Name
    reason: Name


ACCEPTANCE = TypeAdapter(Acceptance)
REAPPLIED = TypeAdapter(Reapplied)
MOVED = TypeAdapter(Moved)
HEALED = TypeAdapter(Healed)
FORGOTTEN = TypeAdapter(Forgotten)
BATCH = TypeAdapter(Batch)
EXPECTED = TypeAdapter(Expected)
HEARTBEAT = TypeAdapter(Heartbeat)
SESSION = TypeAdapter(Session)
ID = TypeAdapter(Id)


async def parsed(adapter: TypeAdapter[Result], request: web.Request) -> Result:
    """What a request carries. Raises Problem."""
    return validated(adapter, await read_json(request))


def validated(adapter: TypeAdapter[Result], value: Any, name: str = "the body") -> Result:
    """A value as its type has it. Raises Problem, which names the field, or the value, and what is wrong with it."""
    try:
        return adapter.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or name
        raise Problem(400, "a field is wrong", f"{where}: {first['msg']} (got {first['input']!r})"[:500]) from error
