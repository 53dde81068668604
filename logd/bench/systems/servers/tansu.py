"""tansu, a broker of Kafka's protocol in Rust, with its data in SQLite."""

from __future__ import annotations

import os
from typing import ClassVar

from attrs import define

from logd.bench.systems.peer import Peer, PeerClient
from logd.bench.systems.places import SystemPlaces

_PROGRAM = "tansu"


@define(eq=False)
class TansuPeer(Peer):
    """One broker; of its storage engines SQLite is the one with files on the broker's own disk."""

    name: ClassVar[str] = "tansu"
    fetched: ClassVar[str] = "tansu"
    durability: ClassVar[str] = "acks 1: a transaction of SQLite (libSQL) on one broker's disk, by tansu's settings"
    clients: ClassVar[tuple[PeerClient, ...]] = (
        PeerClient(
            "confluent-kafka",
            "logd.bench.systems.clients.confluent",
            "confluent_kafka",
            "confluent-kafka",
            paced=True,
        ),
    )

    @classmethod
    def missing(cls, places: SystemPlaces) -> str:
        """See Peer."""
        return "" if places.program(_PROGRAM) else f"there is no {_PROGRAM} on the PATH or in the folder of systems"

    @property
    def version(self) -> str:
        """See Peer."""
        return self.call([self._program, "--version"]).split()[-1]

    def launch(self) -> None:
        """See Peer."""
        # tansu takes the path of such a URL as relative to its working folder, even one with a leading slash.
        store = f"sqlite:///{os.path.relpath(self.data, self.folder)}/tansu.db"
        listen = ["--listener-url", self._url, "--advertised-listener-url", self._url]
        self.run([self._program, "broker", *listen, "--storage-engine", store])

    def create(self, topic: str) -> None:
        """See Peer."""
        self.call([self._program, "topic", "create", topic, "--partitions", "1", "--broker", self._url])

    @property
    def _program(self) -> str:
        return self.places.program(_PROGRAM) or _PROGRAM

    @property
    def _url(self) -> str:
        return f"tcp://127.0.0.1:{self.port}"
