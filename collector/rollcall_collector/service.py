"""The collector's HTTP service: events in, verdicts and the state of runs out."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from functools import partial
from typing import Any, TypeVar, cast

import orjson
from aiohttp import web
from sqlalchemy import Connection
from sqlalchemy.exc import SQLAlchemyError

from .bodies import (
    ACCEPTANCE,
    BATCH,
    EXPECTED,
    FORGOTTEN,
    HEALED,
    HEARTBEAT,
    ID,
    MOVED,
    REAPPLIED,
    SESSION,
    parsed,
    validated,
)
from .browser import Page, wants_page
from .contract.policy import Policy, policy_from
from .diverted import tell_rulings
from .failures_text import failures_text, rollouts_text, timeline_text
from .following import Following
from .guard import Guard, guard_of
from .measures import CollectorMeasures
from .mounted import Folder, Mounted
from .notices import Notices, Webhook
from .openapi import document
from .rollout_text import rollout_text
from .routes import LIMITS, ROUTES, SINCE, STATES, WAIT_S
from .scraping import registry, scraped
from .serving import Problem, bind, json_response, problems, read_json, serve_at, url_of, wants_text
from .settings import CollectorSettings, split_address
from .status_text import NO_RUN, gate_text, runs_text, status_text
from .store import Reader, StoreBusyError, Writer, open_database
from .store.applying import apply_events
from .store.database import said
from .store.grouping import WAYS
from .store.hearing import steady_clock
from .store.judging import Changed, reapply
from .store.placing import forget, moves, note_healed, note_moved
from .store.reading import UnknownRunError
from .store.reporting import note_told
from .store.writing import (
    InputsChangedError,
    SessionConflictError,
    TooManyRunsError,
    UnknownSessionError,
    accept_rebuilt,
    accept_unattributed,
    heartbeat,
    note_asked,
    put_expected,
    put_session,
)
from .tasks import background

Result = TypeVar("Result")

STREAMED = 20
"""Runs in the stream of all: as many as a page shows."""

TOLD_S = 6.0
"""Seconds for which a question for metrics waits for proxies that have yet to tell; they report every 2 s."""

BODY_LIMIT = 512 * 1024 * 1024
"""Bytes of a request's body that are read: the rollouts of a run come in one."""


class Collector:
    """The routes; each reads its request, asks the store, and shapes the answer."""

    def __init__(
        self,
        writer: Writer,
        reader: Reader,
        policy: Policy,
        clock: Callable[[], float],
        *,
        mounted: Mounted | None = None,
        guard: Guard | None = None,
    ) -> None:
        self._writer, self._reader, self._policy, self._now = writer, reader, policy, clock
        self._mounted, self._following, self._page = mounted, Following(), Page()
        self._measures = CollectorMeasures(lambda: reader.measures(clock()), writer, lambda: self._following.followers)
        self._guard = guard
        self._metrics = registry(self._measures, *([guard.refusals] if guard else []))

    def app(self) -> web.Application:
        """The aiohttp application."""
        guarded = [problems, self._guard.middleware] if self._guard else [problems]
        app = web.Application(middlewares=guarded, client_max_size=BODY_LIMIT)
        app.on_shutdown.append(self._end_streams)
        for route in ROUTES:
            app.router.add_route(route.method, route.path, getattr(self, route.handler))
        return app

    async def _end_streams(self, _: web.Application) -> None:
        await self._following.close()

    async def document(self, _: web.Request) -> web.Response:
        """What the API is, for programs."""
        return json_response(document())

    async def metrics(self, request: web.Request) -> web.Response:
        """Numbers for Prometheus."""
        return await self._read(scraped, request, self._metrics)

    async def overview(self, request: web.Request) -> web.Response:
        """The page for browsers; for others the latest run, as JSON when asked for, else as text for people."""
        if wants_page(request):
            return self._page.answer(request)
        wants_json = not wants_text(request, unless="application/json")
        try:
            status = self._with_trouble(await self._read(self._reader.status, "latest", self._now()))
        except Problem:
            return json_response({"runs": []}) if wants_json else web.Response(text=NO_RUN)
        return json_response(status) if wants_json else web.Response(text=status_text(status))

    async def page(self, request: web.Request) -> web.Response:
        """A file of the page for browsers."""
        return self._page.answer(request, request.match_info["file"])

    async def healthz(self, _: web.Request) -> web.Response:
        """The process lives."""
        return json_response({"status": "ok"})

    async def readyz(self, _: web.Request) -> web.Response:
        """The database can be read, and the last write to it went well."""
        if self._writer.trouble:
            raise Problem(503, "the database cannot be written", self._writer.trouble)
        await self._read(self._reader.ping)
        return json_response({"status": "ready"})

    async def events(self, request: web.Request) -> web.Response:
        """Take in a batch of a proxy's events; answered once they are committed."""
        with self._room(request):
            batch, now = await parsed(BATCH, request), self._now()
            job = partial(
                apply_events,
                sender=batch.sender,
                first=batch.first,
                events=batch.events,
                policy=self._policy,
                now=now,
            )
            rulings = await self._write(job)
        self._measures.saw(batch.events)
        tell_rulings(rulings)
        return json_response({"rulings": rulings, "now": now})

    async def put_session(self, request: web.Request) -> web.Response:
        """A dispatcher has started."""
        body = await read_json(request)
        if not isinstance(body, dict):
            raise Problem(400, "the body is not a JSON object", "send the session's fields")
        name = {"session": request.match_info["session"]}
        session = validated(SESSION, body | name)
        if session.run == "latest":
            raise Problem(400, "a field is wrong", "run: latest names the newest run; give the run an id of its own")
        await self._write(partial(put_session, session=session, now=self._now(), policy=self._policy))
        return json_response({"session": session.session, "run": session.run})

    async def session(self, request: web.Request) -> web.Response:
        """Which run a session belongs to."""
        session = request.match_info["session"]
        return json_response({"session": session, "run": await self._read(self._reader.run_of, session)})

    async def heartbeat(self, request: web.Request) -> web.Response:
        """A dispatcher lives, or has ended."""
        beat = await parsed(HEARTBEAT, request)
        if beat.state not in ("running", "ended"):
            raise Problem(400, "wrong state", f"state is {beat.state!r}; send running or ended")
        session, ended = request.match_info["session"], beat.state == "ended"
        await self._write(partial(heartbeat, session=session, ended=ended, now=self._now()))
        return json_response({})

    async def put_expected(self, request: web.Request) -> web.Response:
        """The rollouts of the materialized inputs."""
        with self._room(request):
            run, body = validated(ID, request.match_info["run"], "run"), await parsed(EXPECTED, request)
            job = partial(
                put_expected,
                run=run,
                source=body.source,
                digest=body.digest,
                expected=body.rollouts,
                now=self._now(),
            )
            return json_response({"expected": await self._write(job)})

    async def runs(self, request: web.Request) -> web.Response:
        """The newest runs first."""
        found = await self._read(self._reader.runs, self._now(), request.query.get("launch"))
        return web.Response(text=runs_text(found)) if wants_text(request) else json_response({"runs": found})

    async def status(self, request: web.Request) -> web.Response:
        """The status of a run, as text where that is asked for."""
        read, wait = self._reading(request.match_info["run"]), request.query.get("wait")
        if wait not in (None, "complete"):
            raise Problem(400, "unknown wait", f"{wait!r}; send wait=complete")
        seconds = _number(request.query, "timeout", *WAIT_S)
        if wait is None:
            status = await read()
        else:
            run = await self._known(request)  # `latest` stays the one that it is now
            status = await self._following.wait(run, self._reading(run), _is_over, seconds)
        if wants_text(request):
            return web.Response(text=status_text(status))
        return json_response(status)

    def _reading(self, run: str) -> Callable[[], Awaitable[dict[str, Any]]]:
        async def read() -> dict[str, Any]:
            return self._with_trouble(await self._read(self._reader.status, run, self._now()))

        return read

    async def run_events(self, request: web.Request) -> web.StreamResponse:
        """The state of a run whenever it changes."""
        run = await self._known(request)
        return await self._following.stream(request, run, self._reading(run))

    async def all_events(self, request: web.Request) -> web.StreamResponse:
        """The newest runs whenever they change."""

        async def read() -> dict[str, Any]:
            return {"runs": await self._read(self._reader.runs, self._now(), None, STREAMED)}

        return await self._following.stream(request, "", read)

    async def timeline(self, request: web.Request) -> web.Response:
        """When attempts failed."""
        found = await self._read(self._reader.timeline, request.match_info["run"])
        return web.Response(text=timeline_text(found)) if wants_text(request) else json_response(found)

    async def gate(self, request: web.Request) -> web.Response:
        """Which benchmarks' metrics are released.

        A proxy that asks in a dispatcher's name says so: then all others are waited for until they have told.
        """
        run, server, asked_at = request.match_info["run"], request.query.get("server"), None
        if (teller := request.query.get("told_by")) is not None:
            asked_at = self._now()
            await self._all_told(run, teller, asked_at)
        found = await self._read(self._reader.gate, run, self._now(), server, self._writer.trouble, asked_at)
        return web.Response(text=gate_text(found)) if wants_text(request) else json_response(found)

    async def _all_told(self, run: str, teller: str, asked_at: float) -> None:
        """Wait a while until every proxy has told what it knew at a time."""
        with suppress(Problem):  # a store that cannot be written withholds by itself
            await self._write(partial(note_told, proxy=teller, now=asked_at))
        while await self._read(self._reader.unreported, run, self._now(), asked_at):
            if self._now() - asked_at > TOLD_S:
                return
            await asyncio.sleep(0.1)

    async def ask_gate(self, request: web.Request) -> web.Response:
        """The same, asked by a dispatcher that dispatches nothing more: what was seen is all there is."""
        await self._write(partial(note_asked, run=request.match_info["run"], now=self._now()))
        return await self.gate(request)

    async def accept(self, request: web.Request) -> web.Response:
        """A person accepts a run's unattributed failures so far, or what its rebuild does not know, and says why."""
        body = await parsed(ACCEPTANCE, request)
        if body.what not in ("unattributed", "rebuilt") or not body.reason.strip():
            raise Problem(400, "a field is wrong", 'send {"what": "unattributed" or "rebuilt", "reason": "<why>"}')
        run = request.match_info["run"]
        accept = partial(accept_unattributed, now=self._now()) if body.what == "unattributed" else accept_rebuilt
        if not await self._write(partial(accept, run=run, reason=body.reason)):
            raise Problem(404, "not found", f"no run has the id {run}")
        return await self.status(request)

    async def clock(self, _: web.Request) -> web.Response:
        """What time it is, for proxies."""
        return json_response({"now": self._now()})

    async def policy(self, _: web.Request) -> web.Response:
        """The policy in force, for proxies."""
        return json_response(self._policy.as_dict())

    async def standing(self, request: web.Request) -> web.Response:
        """The calls that a proxy takes over."""
        line, since = request.query.get("line", ""), _number(request.query, "since", *SINCE)
        return json_response({"calls": await self._read(self._reader.standing, line, since)})

    async def reapply(self, request: web.Request) -> web.Response:
        """Judge a run again under another policy, or say what would become of it."""
        body = await parsed(REAPPLIED, request)
        try:
            policy = policy_from(body.policy)
        except ValueError as error:
            raise Problem(400, "the policy is wrong", str(error)) from error
        run = await self._known(request)
        return json_response(await self._write(partial(_reapplied, run=run, policy=policy, dry_run=body.dry_run)))

    async def moves(self, request: web.Request) -> web.Response:
        """Which rows lie in the wrong file."""
        return json_response(await self._read(self._reader.moves, request.match_info["run"]))

    async def moved(self, request: web.Request) -> web.Response:
        """Rows have been moved."""
        body, run = await parsed(MOVED, request), await self._known(request)
        await self._write(partial(note_moved, run=run, to_failures=body.to_failures, to_results=body.to_results))
        return json_response({})

    async def healed(self, request: web.Request) -> web.Response:
        """Rollouts were verified again with success."""
        body, run = await parsed(HEALED, request), await self._known(request)
        job = partial(note_healed, run=run, session=body.session, healed=body.rollouts)
        return json_response({"healed": await self._write(job)})

    async def forgotten(self, request: web.Request) -> web.Response:
        """Failure rows have been archived."""
        body, run = await parsed(FORGOTTEN, request), await self._known(request)
        return json_response({"forgotten": await self._write(partial(forget, run=run, forgotten=body.dispatches))})

    def _with_trouble(self, status: dict[str, Any]) -> dict[str, Any]:
        """The status, with why the run's rows could not be moved."""
        trouble = self._mounted.troubles.get(status["run"]) if self._mounted else None
        text = f"rows may lie in the wrong file, they could not be moved: {trouble}"
        return status | {"warnings": [*status["warnings"], text]} if trouble else status

    async def _known(self, request: web.Request) -> str:
        """The id of the run that the path names."""
        return await self._read(self._reader.resolve, request.match_info["run"])

    async def rollouts(self, request: web.Request) -> web.Response:
        """Rollouts of a run, by state and benchmark where named."""
        query = request.query
        limit, after = (_number(query, name, *LIMITS[of]) for name, of in (("limit", "rollouts"), ("after", "after")))
        run, state, benchmark = request.match_info["run"], query.get("state"), query.get("benchmark")
        if state not in (None, *STATES):
            raise Problem(400, "unknown state", f"{state!r}; one of {', '.join(STATES)}")
        chosen = partial(self._reader.rollouts, cause=query.get("cause"), words=query.get("q"))
        found = await self._read(chosen, run, state, benchmark, limit, after, self._now())
        if wants_text(request):
            return web.Response(text=rollouts_text(found))
        following = after + limit if found and len(found) == limit else None
        return json_response({"rollouts": found, "next": following})

    async def rollout(self, request: web.Request) -> web.Response:
        """One rollout with its dispatches, their tags and `spans` of their calls, as text where that is asked for."""
        run, rollout = request.match_info["run"], request.match_info["rollout"]
        benchmark, spans = request.query.get("benchmark"), _number(request.query, "spans", *LIMITS["spans"])
        found = await self._read(self._reader.rollout, run, rollout, self._now(), benchmark, spans)
        if wants_text(request):
            return web.Response(text=rollout_text(found))
        return json_response(found)

    async def groups(self, request: web.Request) -> web.Response:
        """The failed rollouts of a run, grouped."""
        by, limit = request.query.get("group", "cause"), _number(request.query, "limit", *LIMITS["failures"])
        if by not in WAYS:
            raise Problem(400, "unknown group", f"{by!r}; one of {', '.join(WAYS)}")
        found = await self._read(self._reader.groups, request.match_info["run"], by, limit)
        return web.Response(text=failures_text(found)) if wants_text(request) else json_response(found)

    async def failures(self, request: web.Request) -> web.StreamResponse:
        """The failure rows of a run, one JSON object a line."""
        rows = await self._read(lambda: list(self._reader.failures(request.match_info["run"])))
        body = b"".join(orjson.dumps(row) + b"\n" for row in rows)
        return web.Response(body=body, content_type="application/jsonl")

    @contextmanager
    def _room(self, request: web.Request) -> Iterator[None]:
        """Room for the request, before it is read."""
        try:
            with self._writer.room(request.content_length or 0):
                yield
        except StoreBusyError as error:
            raise Problem(503, "the store is busy", str(error), {"Retry-After": "1"}) from error

    async def _write(self, job: Callable[[Any], Result]) -> Result:
        try:
            return await self._writer.submit(job)
        except StoreBusyError as error:
            raise Problem(503, "the store is busy", str(error), {"Retry-After": "1"}) from error
        except _DryRunError as dry:
            return cast(Result, dry.result)
        except InputsChangedError as error:
            raise Problem(409, "the inputs have changed", str(error)) from error
        except UnknownSessionError as error:
            raise Problem(404, "unknown session", f"no session {error}; put it first") from error
        except SessionConflictError as error:
            raise Problem(
                409, "another run's session", f"{error}; give each dispatcher a session of its own"
            ) from error
        except TooManyRunsError as error:
            raise Problem(503, "too many runs", str(error)) from error
        except SQLAlchemyError as error:
            raise Problem(503, "the database cannot be written", said(error), {"Retry-After": "1"}) from error

    async def _read(self, read: Callable[..., Result], *arguments: Any) -> Result:
        try:
            return await asyncio.to_thread(read, *arguments)
        except UnknownRunError as error:
            raise Problem(404, "not found", str(error)) from error
        except SQLAlchemyError as error:
            raise Problem(503, "the database cannot be read", said(error), {"Retry-After": "1"}) from error


class _DryRunError(Exception):
    """Takes back what a dry run did, and carries what it would have done."""

    def __init__(self, result: Any) -> None:
        super().__init__("dry run")
        self.result = result


def _is_over(status: Mapping[str, Any]) -> bool:
    return bool(status["complete"]) or status["state"] == "ended"


def _reapplied(connection: Connection, run: str, policy: Policy, dry_run: bool) -> dict[str, Any]:
    changed: list[Changed] = reapply(connection, run, policy)
    result = {"run": run, "changed": changed, "moves": moves(connection, run)}
    if dry_run:
        raise _DryRunError(result)
    return result


def _number(query: Any, name: str, default: int, highest: int) -> int:
    text = query.get(name, str(default))
    if not text.isdecimal() or int(text) > highest:
        raise Problem(400, "wrong number", f"{name}={text!r}; send a number from 0 to {highest}")
    return int(text)


@asynccontextmanager
async def serving(settings: CollectorSettings) -> AsyncIterator[str]:
    """Run a collector; yields its URL. Raises DatabaseError and OSError at the start."""
    tls, guard = settings.tls, guard_of(settings)
    bound = bind(*split_address(settings.listen))
    try:
        engine = await asyncio.to_thread(open_database, settings.database, settings.database_connections)
    except BaseException:
        bound.close()
        raise
    clock = steady_clock(engine)
    writer = Writer(engine, settings.queue_limit, settings.queue_bytes)
    reader = Reader(engine, settings.policy, clock())
    mounted = None
    if settings.results is not None:
        folder = Folder(settings.results, settings.results_seen_as)
        mounted = Mounted(folder, engine, reader, writer.submit, clock)
    collector = Collector(writer, reader, settings.policy, clock, mounted=mounted, guard=guard)
    runner = web.AppRunner(collector.app(), access_log=None, shutdown_timeout=5)
    await runner.setup()
    try:
        await serve_at(bound, runner, tls)
        async with AsyncExitStack() as working:
            if mounted:
                await working.enter_async_context(background(mounted.watch(), "divert rows"))
            if settings.webhook:
                webhook = Webhook(settings.webhook, settings.webhook_secret, settings.webhook_failure_rate)
                notices = Notices(webhook, engine, reader, writer.submit, clock)
                await working.enter_async_context(background(notices.watch(), "webhook"))
            yield url_of(bound, tls=tls is not None)
    finally:
        await runner.cleanup()
        await asyncio.to_thread(writer.close)
        await asyncio.to_thread(engine.dispose)
