"""Threads and pools of an attached process, each asking a path that names it; prints what each carried, as JSON."""

import asyncio
import json
import multiprocessing
import threading
import time
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing.pool import ThreadPool

import nemo_gym.server_utils  # noqa: F401 - attaches
import recorder
from recorder import ask
from rollcall_attach import listeners
from rollcall_attach.owner import OWNER, OwnedApp, holding

LISTENER = recorder.target("listener")
listeners.remember({"listeners": [{"name": "m", "kind": "x", "url": "http://10.0.0.1:1", "listener": LISTENER}]})
LOCAL = threading.local()


def at(path):
    return f"{LISTENER}/{path}"


class Own(threading.Thread):
    def run(self):
        ask(at("thread-class"))


def threads():
    def late():
        time.sleep(0.2)
        ask(at("thread-late"))

    with holding("o-1"):
        started = [threading.Thread(target=ask, args=[at("thread")]), Own(), threading.Thread(target=late)]
        started.append(threading.Timer(0.01, ask, [at("timer")]))
        for thread in started:
            thread.start()
    started.append(threading.Thread(target=ask, args=[at("thread-unowned")]))
    started[-1].start()
    for thread in started:
        thread.join()
    return [sorted(set(vars(thread)) & {"run"}) for thread in started]


def executors():
    """One worker, started by the first rollout; each work as its own rollout's, and the worker as nobody's."""

    def born():
        LOCAL.owner = OWNER.get()

    with ThreadPoolExecutor(1, initializer=born) as pool:
        for owner in ("o-1", "o-2", None, "o-3"):
            with holding(owner):
                work = pool.submit(ask, at(f"executor-{owner}"))
        work.result()
        return [pool.submit(lambda: LOCAL.owner).result(), pool.submit(OWNER.get).result()]


async def loops():
    loop = asyncio.get_running_loop()
    for owner in ("o-1", "o-2", None):
        with holding(owner):
            await loop.run_in_executor(None, ask, at(f"loop-{owner}"))
            await asyncio.to_thread(ask, at(f"to-thread-{owner}"))


def pools():
    with holding("o-1"):
        pool = ThreadPool(1)
    with holding("o-2"):
        pool.map(ask, [at("pool-map")])
        pool.apply(ask, [at("pool-apply")])
        list(pool.imap_unordered(ask, [at("pool-imap")]))
    pool.apply(ask, [at("pool-unowned")])
    pool.terminate()


def processes():
    for method in ("fork", "spawn"):
        context = multiprocessing.get_context(method)
        with ProcessPoolExecutor(1, mp_context=context) as executor:
            for owner in ("o-1", "o-2", None):
                with holding(owner):
                    executor.submit(ask, at(f"{method}-{owner}")).result()
        with holding("o-1"):
            pool = context.Pool(1)
        with holding("o-2"):
            pool.map(ask, [at(f"{method}-pool")])
        pool.apply(ask, [at(f"{method}-pool-unowned")])
        pool.terminate()


async def after_the_answer():
    """A request's task that goes on when the request has been answered."""
    going_on = []

    async def app(scope, receive, send):
        async def clean_up():
            await asyncio.sleep(0.1)
            await asyncio.to_thread(ask, at("clean-up"))

        going_on.append(asyncio.create_task(clean_up()))

    scope = {"type": "http", "headers": [(b"rollcall-owner", b"o-1")]}
    await OwnedApp(app)(scope, None, None)
    assert OWNER.get() is None
    await going_on[0]


if __name__ == "__main__":
    found = {"own run": threads(), "worker": executors()}
    asyncio.run(loops())
    pools()
    processes()
    asyncio.run(after_the_answer())
    print(json.dumps({**found, "owners": recorder.owners()}))
