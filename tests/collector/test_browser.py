"""The page's files as they are served: to browsers alone, under a strict policy, once while they stay the same."""

import re
from pathlib import Path

import pytest
from aiohttp import ClientSession
from collector_client import Client
from rollcall_collector.browser import FOLDER, files

CHROME = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
FIREFOX = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"

NAMES = sorted(files())


@pytest.mark.parametrize("accept", [CHROME, FIREFOX, "text/html"])
async def test_a_browser_gets_the_page(collector: Client, accept: str) -> None:
    answer = await collector.call("GET", "/", Accept=accept)
    assert (answer.status, answer.type) == (200, "text/html")
    assert answer.text.startswith("<!doctype html>")


async def test_curl_and_programs_get_what_they_got(collector: Client) -> None:
    """And so does a browser that is told to ask for another form."""
    assert (await collector.call("GET", "/", Accept="*/*")).type == "text/plain"
    assert (await collector.call("GET", "/", Accept="application/json")).type == "application/json"
    assert (await collector.call("GET", "/?format=text", Accept=CHROME)).type == "text/plain"
    assert (await collector.call("GET", "/?format=json", Accept=CHROME)).type == "application/json"


@pytest.mark.parametrize("path", ["/", *(f"/page/{name}" for name in NAMES)])
async def test_each_file_comes_under_the_policy(collector: Client, path: str) -> None:
    """Nothing inline, nothing from elsewhere, in nobody's frame."""
    fields = (await collector.call("GET", path, Accept=CHROME)).headers
    policy = dict(each.split(" ", 1) for each in fields["Content-Security-Policy"].split("; "))
    assert policy.pop("img-src") == "'self' data:"
    assert {name: policy.pop(name) for name in ("script-src", "style-src", "connect-src")} == {
        "script-src": "'self'",
        "style-src": "'self'",
        "connect-src": "'self'",
    }
    assert set(policy) == {"default-src", "base-uri", "form-action", "frame-ancestors"}
    assert set(policy.values()) == {"'none'"}
    assert (fields["X-Content-Type-Options"], fields["Referrer-Policy"]) == ("nosniff", "no-referrer")


@pytest.mark.parametrize("path", ["/", "/page/main.js"])
async def test_what_a_browser_has_already_is_not_sent_again(collector: Client, path: str) -> None:
    """304, by the ETag; another one is answered in full."""
    first = await collector.call("GET", path, Accept=CHROME)
    assert first.headers["Cache-Control"] == "no-cache"
    own = first.headers["Etag"]
    async with ClientSession() as http:
        for tag, status in ((own, 304), ('"another"', 200), (f'"another", {own}', 304)):
            fields = {"Accept": CHROME, "If-None-Match": tag}
            async with http.get(collector.url + path, headers=fields) as again:
                assert (again.status, again.headers["ETag"]) == (status, own)
                assert bool(await again.read()) is (status == 200)


@pytest.mark.parametrize("name", ["../service.py", "..%2fservice.py", "nothing.js", "INDEX.HTML"])
async def test_no_other_file_is_served(collector: Client, name: str) -> None:
    async with ClientSession() as http, http.get(f"{collector.url}/page/{name}") as answer:
        assert (answer.status, answer.content_type) == (404, "application/problem+json")


def test_every_file_that_the_page_names_is_there() -> None:
    """By addresses that also hold below a path, as behind a proxy of one's own."""
    named = set(re.findall(r'(?:src|href)="(page/[^"]*)"', (FOLDER / "index.html").read_text()))
    assert {each.removeprefix("page/") for each in named} <= set(NAMES)
    for script in FOLDER.glob("*.js"):
        assert set(re.findall(r'from "\./([^"]+)"', script.read_text())) <= set(NAMES)


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_nothing_on_the_page_comes_from_elsewhere_or_is_read_as_html(path: Path) -> None:
    """But for the names of namespaces, no file holds another host's address."""
    text = path.read_text().replace("http://www.w3.org/2000/svg", "")
    assert re.findall(r"(?:https?:)?//[a-z0-9-]+\.[a-z]+", text) == []
    read = r"(?:inner|outer|Adjacent)HTML|document\.write|\beval\(|new Function|\bon\w+="
    assert re.findall(read, text) == []
