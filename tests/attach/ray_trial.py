"""A server of Gym's that hands work to Ray, with a real Ray; prints what each call carried, as JSON.

Each piece of work makes one call to a path that names it, from a worker process.
"""

import asyncio
import json
import os
import sys

import nemo_gym.server_utils  # noqa: F401 - attaches
import ray
import ray_module
import recorder
from rollcall_attach import listeners
from rollcall_attach.owner import holding

TESTS = os.path.dirname(recorder.__file__)
LISTENER = recorder.target("listener")
listeners.remember({"listeners": [{"name": "m", "kind": "x", "url": "http://10.0.0.1:1", "listener": LISTENER}]})


def ask_by(client, url):
    if client == "aiohttp":
        import aiohttp

        async def ask():
            async with aiohttp.ClientSession() as session, session.get(url) as answer:
                await answer.read()

        asyncio.run(ask())
    elif client == "openai":
        import openai

        models = openai.OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0)
        models.chat.completions.create(model="m", messages=[])
    elif client == "subprocess":
        import subprocess

        code = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1]).read()"
        subprocess.run([sys.executable, "-c", code, url], check=True)
    elif client == "thread":
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor() as pool:
            pool.submit(ask_by, "requests", url).result()
    elif client == "urllib3":
        import urllib3

        urllib3.PoolManager().request("GET", url)
    else:
        __import__(client).get(url)
    return ray.get_runtime_context().get_task_name()


@ray.remote(num_cpus=0.25, scheduling_strategy="SPREAD", runtime_env={"py_executable": sys.executable})
def runner_ray_remote(runner, params):
    return runner(**params)


@ray.remote
def task(client, url, *, suffix=""):
    return ask_by(client, url + suffix)


@ray.remote
def generator(url):
    for number in range(2):
        ask_by("httpx", f"{url}-{number}")
        yield number


@ray.remote(num_cpus=0)
def outer(url):
    return ray.get(task.options(num_cpus=0).remote("httpx", url))


@ray.remote(num_cpus=0)
def fails(url):
    raise LookupError(url)


@ray.remote(num_cpus=0)
class Actor:
    def __init__(self, url=None, sentinel=asyncio):
        if url:
            ask_by("httpx", url)

    def ask(self, url):
        return ask_by("httpx", url)

    @staticmethod
    def ask_statically(url):
        return ask_by("httpx", url)

    @ray.method(num_returns=2)
    def two(self, url, *urls, **others):
        for one in (url, *urls, *others.values()):
            ask_by("httpx", one)
        return 1, 2

    def nested(self, url):
        return ray.get(task.options(num_cpus=0).remote("httpx", url))

    def many(self, url):
        for number in range(2):
            ask_by("httpx", f"{url}-{number}")
            yield number


@ray.remote(num_cpus=0)
class AsyncActor:
    async def ask(self, url, wait):
        import httpx

        await asyncio.sleep(wait)
        async with httpx.AsyncClient() as client:
            await client.get(url)

    async def many(self, url):
        import httpx

        for number in range(2):
            async with httpx.AsyncClient() as client:
                await client.get(f"{url}-{number}")
            yield number


def at(path):
    return f"{LISTENER}/{path}"


def tasks():
    names = {ray.get(task.remote("httpx", at("task-unowned")))}
    for client in ("httpx", "requests", "urllib3", "aiohttp", "openai", "subprocess", "thread"):
        with holding(f"o-{client}"):
            ray.get(runner_ray_remote.remote(ask_by, {"client": client, "url": at(f"task-{client}")}))
    with holding("o-options"):
        names.add(ray.get(task.remote("httpx", at("task-again"))))
        ray.get(task.options(num_cpus=0.5, name="mine").remote("httpx", at("task-"), suffix="options"))
        list(map(ray.get, generator.remote(at("task-generator"))))
        ray.get(outer.remote(at("task-nested")))
    ray.get(task.remote("httpx", at("task-unowned-later")))
    return sorted(names)


def actors():
    early = Actor.remote()
    with holding("o-1"):
        ray.get(early.ask.remote(at("actor-early")))
        ray.get(early.two.remote(at("actor-a"), at("actor-b"), c=at("actor-c")))
        ray.get(early.two.options(name="mine").remote(at("actor-options")))
        ray.get(early.nested.remote(at("actor-nested")))
        ray.get(early.ask_statically.remote(at("actor-static")))
        list(map(ray.get, early.many.remote(at("actor-many"))))
        late = Actor.remote(at("actor-init"))
        ray.get(late.__ray_ready__.remote())
    ray.get(late.ask.remote(at("actor-unowned")))
    waits = AsyncActor.remote()
    calls = []
    for owner, wait in (("o-slow", 0.5), ("o-fast", 0.1)):
        with holding(owner):
            calls.append(waits.ask.remote(at(f"actor-{owner}"), wait))
    ray.get([*calls, waits.ask.remote(at("actor-async-unowned"), 0)])
    with holding("o-1"):
        list(map(ray.get, waits.many.remote(at("actor-async-many"))))


def bare_workers():
    """Workers that have neither the attach nor anything of Rollcall's."""
    bare = {"runtime_env": {"env_vars": {"ROLLCALL_PROXY": "", "PYTHONPATH": TESTS}}, "num_cpus": 0}
    with holding("o-1"):
        name = ray.get(task.options(**bare).remote("httpx", at("bare-task")))
        actor = Actor.options(**bare).remote(at("bare-init"))
        return [name, ray.get(actor.ask.remote(at("bare-actor"))), ray.get(ray.remote(**bare)(can_attach).remote())]


def can_attach():
    import importlib.util

    return importlib.util.find_spec("rollcall_attach") is not None


def unpicklable():
    """A class that Ray takes from its module by name, whose defaults cannot be pickled."""
    with holding("o-1"):
        actor = ray.remote(num_cpus=0)(ray_module.Guarded).remote()
        ray.get(actor.ask.remote(at("guarded")))


def errors():
    """What a caller gets to see of a task that fails, and of arguments that do not fit."""
    found = []
    for call in (lambda: ray.get(fails.remote("x")), lambda: task.remote("x"), lambda: Actor.remote(1, 2, 3)):
        for owner in (None, "o-1"):
            with holding(owner):
                try:
                    call()
                    found.append(None)
                except Exception as error:
                    found.append(f"{type(error).__name__} {isinstance(error, LookupError)}")
    return found


def main():
    ray.init(num_cpus=1, include_dashboard=False, logging_level="error", log_to_driver=False)
    try:
        found = {"names": tasks(), "bare": bare_workers(), "errors": errors()}
        actors()
        unpicklable()
        found["owners"] = recorder.owners()
    finally:
        ray.shutdown()
    print("FOUND", json.dumps(found))


main()
