"""NATS JetStream, with streams in files."""

from __future__ import annotations

from typing import ClassVar

from attrs import define

from logd.bench.systems.peer import Peer, PeerClient
from logd.bench.systems.places import SystemPlaces

_PROGRAM = "nats-server"


@define(eq=False)
class NatsPeer(Peer):
    """One server with its defaults."""

    name: ClassVar[str] = "NATS JetStream"
    fetched: ClassVar[str] = "debian"
    durability: ClassVar[str] = (
        "file storage: in the page cache of one server, flushed every two minutes; readers see what is not flushed"
    )
    clients: ClassVar[tuple[PeerClient, ...]] = (
        PeerClient("nats-py", "logd.bench.systems.clients.nats_client", "nats", "nats-py", (1, 0), paced=True),
    )

    @classmethod
    def missing(cls, places: SystemPlaces) -> str:
        """See Peer."""
        return "" if places.program(_PROGRAM) else f"there is no {_PROGRAM} on the PATH or in the folder of systems"

    @property
    def version(self) -> str:
        """See Peer."""
        return self.call([self.places.program(_PROGRAM) or _PROGRAM, "--version"]).split()[-1].lstrip("v")

    def launch(self) -> None:
        """See Peer."""
        program = self.places.program(_PROGRAM) or _PROGRAM
        self.run([program, "--addr", "127.0.0.1", "--port", str(self.port), "--jetstream", "--store_dir", self.data])
