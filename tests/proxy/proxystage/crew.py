"""Which process of a proxy with workers carried what."""

from .fakes import OWNER, FakeServer
from .world import World


def carriers(*servers: FakeServer) -> list[str]:
    """The process that carried each request to these servers, in their order: it is in the owner that it minted."""
    return [heard.fields[OWNER].split("~")[2].partition(".")[0] for server in servers for heard in server.heard]


def turns(*servers: FakeServer) -> list[int]:
    """The same, with the processes numbered as they appear."""
    found = carriers(*servers)
    numbers = {process: number for number, process in enumerate(dict.fromkeys(found))}
    return [numbers[process] for process in found]


async def pids(world: World) -> list[int]:
    """The processes that serve, the first one first."""
    return [each["pid"] for each in (await world.main("GET", "/v1/upstreams")).value["processes"]]
