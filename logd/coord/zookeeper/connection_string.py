"""The address of a coordination tree in ZooKeeper's notation: ``host1:2181,host2:2181/chroot``."""

from __future__ import annotations

import re
from collections.abc import Iterator

from attrs import frozen

from logd.coord.errors import BadArguments
from logd.coord.tree.pathnames import check_path
from logd.errors import ConfigurationError

DEFAULT_PORT = 2181

_SERVER = re.compile(r"(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\[\]:/,\s]+)(:(?P<port>\d{1,5}))?")


@frozen
class Server:
    """One server's address; an IPv6 ``host`` has no brackets here."""

    host: str
    port: int = DEFAULT_PORT

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@frozen
class ConnectionString:
    """The servers of one tree, and the node that is the root of our paths (``chroot``; empty for the root)."""

    servers: tuple[Server, ...]
    chroot: str = ""

    def __str__(self) -> str:
        return self.hosts + self.chroot

    @property
    def hosts(self) -> str:
        """The servers without the chroot, separated by commas."""
        return ",".join(map(str, self.servers))

    def full(self, path: str) -> str:
        """Return the server's path for a path of ours."""
        if not self.chroot:
            return path
        return self.chroot if path == "/" else self.chroot + path

    def ours(self, path: str) -> str:
        """Return our path for a path from the server."""
        return path[len(self.chroot) :] or "/"


def parse_connection_string(text: str) -> ConnectionString:
    """Parse ``host[:port][,host[:port]...][/chroot]``; the default port is 2181.

    Raises ConfigurationError that names the error and its place.
    """
    servers, _, rest = text.strip().partition("/")
    chroot = f"/{rest.rstrip('/')}" if rest.rstrip("/") else ""
    if chroot:
        try:
            check_path(chroot)
        except BadArguments as error:
            raise ConfigurationError(f"{text!r}: the path behind the servers: {error}") from error
    return ConnectionString(tuple(_servers(servers, text)), chroot)


def _servers(listed: str, text: str) -> Iterator[Server]:
    for each in listed.split(","):
        found = _SERVER.fullmatch(each.strip())
        if found is None:
            raise ConfigurationError(
                f"{text!r}: {each.strip()!r} is no server; expected is host:port[,host:port...][/path], as in"
                " 'zoo1:2181,zoo2:2181/logd'; put an IPv6 address into brackets"
            )
        port = int(found["port"] or DEFAULT_PORT)
        if not 0 < port < 65536:
            raise ConfigurationError(f"{text!r}: port {port} is not one of 1 to 65535")
        yield Server(found["host"].strip("[]"), port)
