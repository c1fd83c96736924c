"""The guard before a service's routes: asks `access` about each request, and refuses, counts and says."""

import socket

from aiohttp import web
from multidict import CIMultiDict

from .access import Access, Asked, Refusal
from .refusals import Refusals
from .serving import Handler, Problem
from .settings import AccessSettings, split_address
from .users import Connected, Users


class Guard:
    """Lets in who may come in. `users`: whose connections from this machine are taken, None: everybody's."""

    def __init__(self, access: Access, refusals: Refusals, users: Users | None = None) -> None:
        self._access, self.refusals, self._users = access, refusals, users

    @web.middleware
    async def middleware(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Raises Problem where the request is refused."""
        connection = None if request.transport is None else request.transport.get_extra_info("socket")
        self.check(_asked(request), request.remote, connection)
        return await handler(request)

    def check(self, asked: Asked, peer: str | None, connection: Connected | None) -> None:
        """Raises Problem where what a peer asks by a connection is refused."""
        refusal = self._by_user(connection) or self._access.refusal(asked)
        if refusal is not None:
            self.refusals.note(refusal.reason, peer or "a peer that has left", refusal.detail)
            raise Problem(refusal.status, refusal.title, refusal.detail, CIMultiDict(refusal.fields))

    def _by_user(self, connection: Connected | None) -> Refusal | None:
        if self._users is None or connection is None:
            return None
        try:
            why = self._users.stranger(connection)
        except OSError:
            why = "it has left already"
        return None if why is None else Refusal("user", 403, "another user of this machine", why)


def guard_of(settings: AccessSettings, *names: str) -> Guard:
    """A service's, by its settings; `names` are further ones under which it is asked. Raises ValueError."""
    host, _ = split_address(settings.listen)
    prefix = settings.model_config.get("env_prefix", "")
    machine = socket.gethostname()
    known = [host, machine, machine.partition(".")[0], *settings.host_names, *names]
    access = Access(settings.tokens, known, prefix)
    return Guard(access, Refusals(), settings.users)


def _asked(request: web.Request) -> Asked:
    proxied = request.method == "CONNECT" or request.raw_path.startswith(("http://", "https://"))
    return Asked(request.method, request.path, request.query, request.headers, proxied)
