"""Which user of this machine has opened a connection: the kernel says, and no caller can say otherwise.

Over loopback both ends of a connection are sockets of this machine. The far one is looked up by its two addresses
(Linux, sock_diag(7)); its user is who created it. A socket that its process has closed already is nobody's, for which
the kernel says root: it has no inode, by which it is told apart. Users are told as the namespace of this process maps
them: those that it does not map are all 65534.
"""

import os
import pwd
import socket
import struct
from collections.abc import Iterable
from typing import Any, Protocol

OWN, ALL = "own", "all"
"""The first stands for the user whom the service itself runs as, who is always let in, as root is; the second is what
holds where nothing is set."""

_NETLINK_SOCK_DIAG = 4
_SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 20, 1
_NO_COOKIE = 0xFFFFFFFF
_HEADER = struct.Struct("=IHHII")  # struct nlmsghdr
_REQUEST = struct.Struct("=BBBBI")  # struct inet_diag_req_v2 up to its sockid
_SOCKID_SIZE = 48
_OWNER = struct.Struct("=IIIII")  # struct inet_diag_msg behind its sockid: expires, rqueue, wqueue, uid, inode
_OWNER_AT = _HEADER.size + 4 + _SOCKID_SIZE


class Connected(Protocol):
    """A connected socket, or what an event loop shows of one."""

    @property
    def family(self) -> int: ...
    def getsockname(self) -> Any: ...
    def getpeername(self) -> Any: ...


class Users:
    """Users of this machine, by number or name, who may connect besides root and the service's own. Raises ValueError
    where the system cannot tell them."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self._allowed = {0, os.geteuid(), *(uid_of(each) for each in allowed if each != OWN)}
        if not can_tell():
            raise ValueError("this system does not tell whose a connection is (Linux, sock_diag); leave it out")

    def stranger(self, connection: Connected) -> str | None:
        """Why the peer of a connection is not let in; None where it is, or is not on this machine. Raises OSError
        where it has left."""
        here, peer = connection.getsockname(), connection.getpeername()
        if here[0] != peer[0] and not _is_loopback(peer[0]):
            return None
        uid = _user_of(peer, here, connection.family)
        if uid in self._allowed:
            return None
        who = "whoever has closed this connection already" if uid is None else f"user {uid}"
        return f"{who} is not among allow_uids, those who may connect from this machine"


def uid_of(name: str) -> int:
    """A user's number. Raises ValueError."""
    if name == OWN:
        return os.geteuid()
    if name.isdecimal():
        return int(name)
    try:
        return pwd.getpwnam(name).pw_uid
    except KeyError:
        raise ValueError(f"{name!r} is no user of this machine; write a number, a name, {OWN} or {ALL}") from None


def _user_of(peer: tuple[str, int], here: tuple[str, int], family: int) -> int | None:
    """The user whose socket is at `peer` and speaks to `here`; None where no process has it."""
    found = _asked(family, peer, here)
    if found is None or len(found) < _OWNER_AT + _OWNER.size or _HEADER.unpack_from(found)[1] != _SOCK_DIAG_BY_FAMILY:
        return None
    *_, uid, inode = _OWNER.unpack_from(found, _OWNER_AT)
    return int(uid) if inode else None


def _asked(family: int, source: tuple[str, int], target: tuple[str, int]) -> bytes | None:
    packed = [socket.inet_pton(family, each[0].partition("%")[0]).ljust(16, b"\0") for each in (source, target)]
    sockid = struct.pack("!HH", source[1], target[1]) + packed[0] + packed[1]
    sockid += struct.pack("=III", 0, _NO_COOKIE, _NO_COOKIE)
    body = _REQUEST.pack(family, socket.IPPROTO_TCP, 0, 0, 0xFFFFFFFF) + sockid
    request = _HEADER.pack(_HEADER.size + len(body), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0) + body
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC, _NETLINK_SOCK_DIAG) as netlink:
            netlink.send(request)
            return netlink.recv(8192)
    except OSError:
        return None


def can_tell() -> bool:
    """Whether this system tells whose a connection is; tried with one of one's own."""
    if not hasattr(socket, "AF_NETLINK"):
        return False
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
        accepted, _ = server.accept()
        with accepted:
            return _user_of(client.getsockname(), accepted.getsockname(), socket.AF_INET) == os.geteuid()


def _is_loopback(address: str) -> bool:
    return address.startswith("127.") or address in ("::1", "::ffff:127.0.0.1")
