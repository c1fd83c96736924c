"""A collector on a real socket, and a client that talks to it as proxies and dispatchers do."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import orjson
from api_document import Document
from collector_events import batch
from rollcall_collector.contract.exchange import Event
from rollcall_collector.service import serving
from rollcall_collector.settings import CollectorSettings


@dataclass(frozen=True)
class Answer:
    """What came back; `body` is the JSON where it is JSON."""

    status: int
    type: str
    headers: dict[str, str]
    text: str

    @property
    def body(self) -> Any:
        return orjson.loads(self.text)

    @property
    def problem(self) -> tuple[int, str, str]:
        """(status, title, detail) of an answer of RFC 9457."""
        assert self.type == "application/problem+json"
        assert self.body["status"] == self.status
        return self.status, self.body["title"], self.body["detail"]


@dataclass
class Client:
    """Calls to one collector, each answer to which is held against the document. Events are numbered by themselves."""

    http: aiohttp.ClientSession
    url: str
    sent: int = field(default=0)
    document: Document = field(default_factory=Document)

    async def call(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        data = body if body is None or isinstance(body, bytes) else orjson.dumps(body)
        async with self.http.request(method, self.url + path, data=data, headers=headers) as answer:
            text = await answer.text()
        came = Answer(answer.status, answer.content_type, dict(answer.headers), text)
        self.document.check(method, path, data, came)
        return came

    async def get(self, path: str, **headers: str) -> Any:
        answer = await self.call("GET", path, **headers)
        assert answer.status == 200, answer.text
        return answer.body

    async def session(self, session: str = "s-1", run: str = "r-1", **fields: Any) -> None:
        answer = await self.call("PUT", f"/v1/sessions/{session}", {"run": run, "mode": "fresh"} | fields)
        assert answer.body == {"session": session, "run": run}

    async def expects(self, *indexes: int, run: str = "r-1", benchmark: str = "math_agent") -> None:
        rollouts = [[benchmark, index, 0, None] for index in indexes]
        body = {"session": "s-1", "source": "inputs.jsonl", "digest": "sha256:0", "rollouts": rollouts}
        assert (await self.call("PUT", f"/v1/runs/{run}/expected", body)).body == {"expected": len(indexes)}

    async def sends(self, *events: Event) -> list[dict[str, Any]]:
        """The next events; the rulings."""
        answer = await self.call("POST", "/v1/events", batch("p-1", self.sent + 1, *events))
        assert answer.status == 200, answer.text
        self.sent += len(events)
        rulings: list[dict[str, Any]] = answer.body["rulings"]
        return rulings


@asynccontextmanager
async def running(database: Path, **settings: Any) -> AsyncIterator[Client]:
    """A collector on any free port."""
    defaults = {"listen": "127.0.0.1:0", "database": f"sqlite:///{database}"}
    given = CollectorSettings(**(defaults | settings))
    async with serving(given) as url, aiohttp.ClientSession() as http:
        yield Client(http, url)
