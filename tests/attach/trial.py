"""One attached server process, its callers and its targets; prints what each hop carried, as JSON.

The app answers /go?client=...&target=... with one call made meanwhile. Targets note the fields they got: `listener`
is an origin that the proxy named, `elsewhere` is not.
"""

import asyncio
import json
import threading
import time
import urllib.request
from urllib.parse import parse_qs, quote

import aiohttp
import httpx
import nemo_gym.server_utils  # noqa: F401 - attaches
import requests
import urllib3
import uvicorn
from recorder import seen_by, target
from rollcall_attach import listeners, owner


async def by_aiohttp(url, headers):
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as answer:
        await answer.read()


async def by_httpx(url, headers):
    async with httpx.AsyncClient(follow_redirects=True) as client:
        await client.get(url, headers=headers)


async def by_httpx_sync(url, headers):
    with httpx.Client(follow_redirects=True) as client:
        client.get(url, headers=headers)  # noqa: ASYNC212 - what a server's author may do


async def by_requests(url, headers):
    with requests.Session() as session:
        session.headers.update(headers)
        kept = dict(session.headers)
        await asyncio.to_thread(session.get, url)
        assert dict(session.headers) == kept


async def by_urllib3(url, headers):
    kept, given = dict(headers), dict(headers)
    await asyncio.to_thread(urllib3.PoolManager(headers=given).request, "GET", url)
    assert given == kept


CLIENTS = {call.__name__[3:]: call for call in (by_aiohttp, by_httpx, by_httpx_sync, by_requests, by_urllib3)}


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return
    query = {name: values[0] for name, values in parse_qs(scope["query_string"].decode()).items()}
    headers = {"X-Own": "1"}
    if "relay" in query:
        headers.update(
            {name.decode(): value.decode() for name, value in scope["headers"] if name.startswith(b"rollcall")}
        )
    if "wait" in query:
        await asyncio.sleep(float(query["wait"]))
    call = CLIENTS[query["client"]]
    if "thread" in query:
        await asyncio.get_running_loop().run_in_executor(None, lambda: asyncio.run(call(query["target"], headers)))
    else:
        await asyncio.create_task(call(query["target"], headers))
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"ok"})


def serve():
    config = uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning")
    server = uvicorn.Server(config)
    threading.Thread(target=server.run, daemon=True).start()
    while not server.started:
        time.sleep(0.01)
    return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}", server


def go(base, client, url, fields=(), **query):
    asked = "&".join(
        f"{name}={quote(str(value), safe='')}" for name, value in {"client": client, "target": url, **query}.items()
    )
    request = urllib.request.Request(f"{base}/go?{asked}", headers=dict(fields))
    urllib.request.urlopen(request, timeout=20).read()


def owned(name):
    return {"Rollcall-Owner": name}


def dispatched(client, url, fields):
    async def calls():
        owner.SESSION.set("s-1")
        await CLIENTS[client](url, fields)

    asyncio.run(calls())


def through(proxy, url):
    with owner.holding("o-1"):
        urllib3.ProxyManager(proxy).request("GET", url, headers={"X-Own": "1"})


def side_by_side(base, client, url):
    """Two requests answered at once, the first one to come calling out last."""
    calls = [
        threading.Thread(target=go, args=(base, client, url, owned(name)), kwargs={"wait": wait})
        for name, wait in (("o-slow", 0.5), ("o-fast", 0.1))
    ]
    for call in calls:
        call.start()
    for call in calls:
        call.join()


def main():
    listener, elsewhere = target("listener"), target("elsewhere")
    listeners.remember({"listeners": [{"name": "a", "kind": "x", "url": "http://10.0.0.1:1", "listener": listener}]})
    base, server = serve()
    found = {}
    for client in CLIENTS:
        found[client] = {
            "owned": seen_by(go, base, client, listener, owned("o-1")),
            "from a thread": seen_by(go, base, client, listener, owned("o-1"), thread=1),
            "from a thread, unowned": seen_by(go, base, client, listener, thread=1),
            "unowned": seen_by(go, base, client, listener),
            "elsewhere": seen_by(go, base, client, elsewhere, owned("o-1")),
            "relayed": seen_by(go, base, client, listener, owned("o-1"), relay=1),
            "relayed elsewhere": seen_by(go, base, client, elsewhere, owned("o-1"), relay=1),
            "redirected away": seen_by(go, base, client, f"{listener}/to?url={elsewhere}", owned("o-1")),
            "redirected back": seen_by(go, base, client, f"{elsewhere}/to?url={listener}", owned("o-1"), relay=1),
            "side by side": seen_by(side_by_side, base, client, listener),
            "dispatched": seen_by(dispatched, client, listener, {}),
            "dispatched elsewhere": seen_by(dispatched, client, elsewhere, {}),
            "dispatched with owner": seen_by(dispatched, client, listener, {"rollcall-owner": "o-9"}),
            "session relayed": seen_by(
                go, base, client, listener, {**owned("o-1"), "Rollcall-Session": "s-9"}, relay=1
            ),
        }
    found["to a listener by a proxy"] = seen_by(through, elsewhere, listener)
    found["elsewhere by a proxy"] = seen_by(through, listener, elsewhere)
    again = server.config
    again.loaded = False
    again.load()
    found["wrapped"] = [type(again.loaded_app).__name__, type(again.loaded_app.app).__name__]
    server.should_exit = True
    print(json.dumps(found))


main()
