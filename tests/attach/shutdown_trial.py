"""A server of Gym's that can be shut down: `/gym` answers a cancelled request as Gym does, `/bare` lets uvicorn do it.

`/stop` ends this server without a signal; `/inner` starts another one inside, shuts it down and asks its last answer.
"""

import asyncio
import json
import signal
import socket
import threading
import time

import nemo_gym.server_utils  # noqa: F401 - attaches
import uvicorn

SERVERS = []


async def app(scope, receive, send):
    if scope["type"] == "lifespan":
        while True:
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return
    if scope["path"] == "/stop":
        SERVERS[-1].should_exit = True
    if scope["path"] == "/inner":
        await asyncio.to_thread(another)
    if scope["path"] in ("/gym", "/bare"):
        print("answering", flush=True)
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            if scope["path"] == "/bare":
                raise
            await answer(send, 500, "An unknown error occurred")
            return
    await answer(send, 200, "ok")


async def answer(send, status, text):
    headers = [(b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps(text).encode()})


def another():
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        server = uvicorn.Server(uvicorn.Config(app, log_level="error"))
        serving = threading.Thread(target=server.run, args=([bound],))
        serving.start()
        while not server.started:
            time.sleep(0.01)
        server.handle_exit(signal.SIGTERM, None)
        serving.join()


def serve(port, workers):
    options = {"host": "127.0.0.1", "port": port, "timeout_graceful_shutdown": 0.3, "log_level": "critical"}
    if workers > 1:
        uvicorn.run("shutdown_trial:app", workers=workers, **options)
        return
    SERVERS.append(uvicorn.Server(uvicorn.Config(app, **options)))
    SERVERS[-1].run()
