"""Redis Streams, with an append-only file."""

from __future__ import annotations

import re
from typing import ClassVar

from attrs import define

from logd.bench.systems.peer import Peer, PeerClient
from logd.bench.systems.places import SystemPlaces

_PROGRAM = "redis-server"


@define(eq=False)
class RedisPeer(Peer):
    """One server that logs every command, and syncs the log every second, as its manual suggests."""

    name: ClassVar[str] = "Redis Streams"
    fetched: ClassVar[str] = "debian"
    durability: ClassVar[str] = (
        "appendonly yes, appendfsync everysec: in a file's page cache, flushed every second; all data is in memory too"
    )
    clients: ClassVar[tuple[PeerClient, ...]] = (
        PeerClient("redis-py", "logd.bench.systems.clients.redis_client", "redis", "redis", paced=True),
    )

    @classmethod
    def missing(cls, places: SystemPlaces) -> str:
        """See Peer."""
        return "" if places.program(_PROGRAM) else f"there is no {_PROGRAM} on the PATH or in the folder of systems"

    @property
    def version(self) -> str:
        """See Peer."""
        text = self.call([self.places.program(_PROGRAM) or _PROGRAM, "--version"], self.places.environment())
        found = re.search(r"v=([\d.]+)", text)
        return found[1] if found else ""

    def launch(self) -> None:
        """See Peer."""
        listen = ["--bind", "127.0.0.1", "--port", str(self.port), "--dir", self.data]
        keep = ["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]
        self.run([self.places.program(_PROGRAM) or _PROGRAM, *listen, *keep], self.places.environment())
