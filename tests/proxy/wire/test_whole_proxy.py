"""What callers and servers see of each other through the whole proxy, beside what they see without it.

docs/conformance.md lists each difference, and what nginx makes of the same case. Its tables are held against what is
seen here; ROLLCALL_WRITE_PAGE=1 writes them anew.
"""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from time import monotonic

import pytest
from wirestage import nginx as nginx_is
from wirestage import page
from wirestage.cases import ASKED, END, GET, HI, HOST, LOST, NO_HTTP, PASSES, REFUSED, RUNS, Case, Seen
from wirestage.raw import Script, until
from wirestage.whole import Whole, whole_proxy, with_owner

WRITES = os.environ.get("ROLLCALL_WRITE_PAGE") == "1"
TABLES = page.tables()
NGINX = nginx_is.version()
UNASKED = f"nginx {NGINX} is not the one of docs/conformance.md" if NGINX else "nginx is not installed"
NO_ANSWER = {name: (ASKED, answer) for name, answer in NO_HTTP.items()} | LOST
"""What is answered 502 in the server's place."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    """A proxy, its collector, and nginx where there is one."""
    with whole_proxy(tmp_path_factory.mktemp("whole")) as started:
        yield started


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Whole]:
    """A proxy of two workers."""
    with whole_proxy(tmp_path_factory.mktemp("several"), workers=2) as started:
        yield started


@pytest.fixture(scope="module")
def nginx(whole: Whole) -> int:
    """The port of the nginx that the page speaks of."""
    if whole.nginx is None or (not WRITES and f"nginx {NGINX} " not in page.PAGE.read_text()):
        pytest.skip(UNASKED)
    return whole.nginx


@pytest.fixture(scope="module")
def new() -> Iterator[dict[str, page.Rows]]:
    """New rows by table; they go into the page at the end, where that is wanted."""
    rows: dict[str, page.Rows] = {name: {} for name in TABLES}
    yield rows
    if WRITES:
        for name, table in rows.items():
            if table:
                page.write(name, table)


Cells = Callable[[Seen], list[str]]


def settled(cells: Cells, wanted: list[str]) -> Callable[[Seen], bool]:
    """Whether what is seen makes these cells; where the page is to be written, whether nothing more comes."""
    last: list[tuple[float, Seen]] = []

    def done(seen: Seen) -> bool:
        if not WRITES:
            return cells(seen) == wanted
        if not last or last[0][1] != seen:
            last[:] = [(monotonic(), seen)]
        return monotonic() - last[0][0] > 0.6

    return done


def differing(case: Case) -> Cells:
    """The cells of a case that differs, from what is seen without the proxy."""
    return lambda direct: [*page.cells_of(direct, case.by_proxy), case.reasons]


@pytest.mark.parametrize("owned", [False, True], ids=["nobody's", "owned"])
@pytest.mark.parametrize("case", PASSES, ids=[case.name for case in PASSES])
async def test_each_side_sees_through_the_proxy_what_it_must(whole: Whole, case: Case, owned: bool) -> None:
    wanted = case.by_proxy
    if owned:
        case = replace(case, caller=with_owner(case.caller, whole.owner))
    seen = await whole.played(case, whole.listener, wanted.__eq__)
    assert seen == wanted
    dispatches = {token.split(b"~")[1] for token in seen.owners}
    assert dispatches == {whole.owner.split(b"~")[1] if owned else b"-"}


@pytest.mark.parametrize("case", PASSES, ids=[case.name for case in PASSES])
async def test_each_side_sees_the_same_through_several_workers(several: Whole, case: Case) -> None:
    sent = replace(case, caller=with_owner(case.caller, several.owner))
    assert await several.played(sent, several.listener, case.by_proxy.__eq__) == case.by_proxy


SAME = [case for case in PASSES if not case.reasons]
OTHER = [case for case in PASSES if case.reasons]


@pytest.mark.parametrize("case", SAME, ids=[case.name for case in SAME])
async def test_what_has_no_reason_to_differ_is_seen_without_the_proxy_too(whole: Whole, case: Case) -> None:
    assert await whole.played(case, whole.direct, case.by_proxy.__eq__) == case.by_proxy


@pytest.mark.parametrize("case", OTHER, ids=[case.name for case in OTHER])
async def test_what_differs_is_listed_with_its_reason(whole: Whole, new: dict[str, page.Rows], case: Case) -> None:
    cells, wanted = differing(case), TABLES["differences"].get(case.name, [])[:3]
    direct = await whole.played(case, whole.direct, settled(cells, wanted))
    new["differences"][case.name] = cells(direct)
    assert direct != case.by_proxy
    assert WRITES or cells(direct) == wanted


@pytest.mark.parametrize("case", RUNS, ids=[case.name for case in RUNS])
async def test_what_differs_of_an_outermost_run_is_listed(whole: Whole, new: dict[str, page.Rows], case: Case) -> None:
    seen = await whole.played(case, whole.runner, case.by_proxy.__eq__)
    assert seen == case.by_proxy

    def cells(direct: Seen) -> list[str]:
        return page.cells_of(direct, case.by_proxy)

    wanted = TABLES["runs"].get(case.name, [])
    direct = await whole.played(case, whole.direct, settled(cells, wanted))
    new["runs"][case.name] = cells(direct)
    assert WRITES or cells(direct) == wanted


@pytest.mark.parametrize("case", OTHER, ids=[case.name for case in OTHER])
async def test_what_nginx_makes_of_it_is_listed(
    whole: Whole, nginx: int, new: dict[str, page.Rows], case: Case
) -> None:
    row = TABLES["differences"].get(case.name, [])
    direct = await whole.played(case, whole.direct, settled(differing(case), row[:3]))

    def cells(seen: Seen) -> list[str]:
        return [page.by_nginx(direct, case.by_proxy, seen)]

    seen = await whole.played(case, nginx, settled(cells, row[3:]))
    new["differences"][case.name] += cells(seen)
    assert WRITES or cells(seen) == row[3:]


ONE = [case for case in SAME if case.sent.count(HOST) < 2]  # nginx opens a connection to the server for each request


@pytest.mark.parametrize("case", ONE, ids=[case.name for case in ONE])
async def test_what_nginx_changes_of_what_passes_unchanged_is_listed(
    whole: Whole, nginx: int, new: dict[str, page.Rows], case: Case
) -> None:
    def cells(seen: Seen) -> list[str]:
        made = page.by_nginx(case.by_proxy, case.by_proxy, seen)
        return [] if made == "the same" else [made]

    wanted = TABLES["unchanged"].get(case.name, [])
    seen = await whole.played(case, nginx, settled(cells, wanted))
    if changed := cells(seen):
        new["unchanged"][case.name] = changed
    assert WRITES or changed == wanted


@pytest.mark.parametrize("owned", [False, True], ids=["nobody's", "owned"])
@pytest.mark.parametrize("name", REFUSED)
async def test_a_request_with_two_readings_is_answered_400_and_reaches_nobody(
    whole: Whole, name: str, owned: bool
) -> None:
    sent = with_owner((REFUSED[name],), whole.owner) if owned else (REFUSED[name],)
    seen = await whole.played(Case(name, sent, ()), whole.listener, lambda seen: seen.end != "open")
    assert (seen.caller[:13], seen.end, seen.server) == (b"HTTP/1.1 400 ", "closed", b"")


@pytest.mark.parametrize("owned", [False, True], ids=["nobody's", "owned"])
@pytest.mark.parametrize("name", NO_ANSWER)
async def test_what_is_no_answer_is_answered_502(whole: Whole, name: str, owned: bool) -> None:
    sent = with_owner((GET + END,), whole.owner) if owned else (GET + END,)
    seen = await whole.played(Case(name, sent, NO_ANSWER[name]), whole.listener, lambda seen: b"}" in seen.caller)
    head, _, body = seen.caller.removeprefix(interim_of(NO_ANSWER[name])).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 502 Bad Gateway\r\nRollcall-Answer: peer_drop\r\n")
    assert (json.loads(body)["answered_by"], seen.end) == ("rollcall", "open")


def interim_of(script: Script) -> bytes:
    """The interim answers in a server's script."""
    return b"".join(step for step in script if isinstance(step, bytes) and step.startswith(b"HTTP/1.1 103"))


BROKEN = [
    *(("refused", Case(name, (request,), (until(b"\n"), HI))) for name, request in REFUSED.items()),
    *(("no_answer", Case(name, (GET + END,), script)) for name, script in NO_ANSWER.items()),
]


@pytest.mark.parametrize(("table", "case"), BROKEN, ids=[f"{table}: {case.name}" for table, case in BROKEN])
async def test_what_nginx_makes_of_what_is_refused_is_listed(
    whole: Whole, nginx: int, new: dict[str, page.Rows], table: str, case: Case
) -> None:
    def cells(seen: Seen) -> list[str]:
        return [page.answered(seen if table == "refused" else replace(seen, server=b""))]

    wanted = TABLES[table].get(case.name, [])
    seen = await whole.played(case, nginx, settled(cells, wanted))
    new[table][case.name] = cells(seen)
    assert WRITES or cells(seen) == wanted


@pytest.mark.skipif(WRITES, reason="the page is being written")
def test_the_page_lists_nothing_else() -> None:
    """In the order of the cases, each of which has a name of its own."""
    assert len({case.name for case in PASSES}) == len(PASSES)
    assert list(TABLES["differences"]) == [case.name for case in OTHER]
    assert set(TABLES["unchanged"]) <= {case.name for case in ONE}
    assert list(TABLES["runs"]) == [case.name for case in RUNS]
    assert list(TABLES["refused"]) == list(REFUSED)
    assert list(TABLES["no_answer"]) == list(NO_ANSWER)
