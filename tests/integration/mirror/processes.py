"""Two clusters of one broker each, and mirrors between them, each a process of its own."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.task import deferLater

from logd.client.admin.admin import Admin
from logd.client.consumer.consumer import Consumer
from logd.client.producer.producer import Producer
from logd.errors import LogdError
from logd.protocol.message import Message
from logd.testing.processes.broker import BrokerProcess
from logd.testing.processes.mirror import MirrorProcess
from tests.integration.background import BackgroundTestCase
from tests.integration.clusters import LONG_SESSION_MS

CLOCK: Any = reactor
CLIENTS: dict[str, Any] = {"reactor": reactor, "retry_delay": 0.02, "retry_delay_limit": 0.2}


class MirrorTestCase(BackgroundTestCase):
    """A cluster ``source`` and a cluster ``target``, each a broker with a tree of its own."""

    timeout = 240
    session_ms = LONG_SESSION_MS

    @property
    def settings(self) -> tuple[str, ...]:
        """The options of every broker."""
        return "--set", f"zookeeper.session.ms={self.session_ms}"

    def setUp(self) -> None:
        """Start both clusters."""
        self.folder = Path(os.path.abspath(self.mktemp()))
        self.folder.mkdir()
        self.source = self.cluster("source")
        self.target = self.cluster("target")
        self.mirrors = 0

    def cluster(self, name: str) -> BrokerProcess:
        """Start a broker with a tree of its own."""
        broker = BrokerProcess(str(self.folder / name), self.settings)
        self.addCleanup(broker.kill)
        broker.start()
        return broker

    def mirror(self, *options: str, topics: str = ".*", target: str = "") -> MirrorProcess:
        """Start a mirror from the source to the target."""
        self.mirrors += 1
        ends = ("--from", self.source.coordination, "--to", target or self.target.coordination, "--topics", topics)
        mirror = MirrorProcess((*ends, *options), str(self.folder / f"mirror{self.mirrors}.log"))
        self.addCleanup(mirror.kill)
        mirror.start()
        return mirror

    def admin(self, cluster: BrokerProcess) -> Admin:
        """Return an Admin of a cluster."""
        admin = Admin(cluster.address, **CLIENTS)
        self.addCleanup(admin.close)
        return admin

    def producer(self, cluster: BrokerProcess, **settings: Any) -> Producer:
        """Return a producer of a cluster."""
        producer = Producer(cluster.address, **{**CLIENTS, **settings})
        self.addCleanup(producer.close)
        return producer

    def copied(self, topic: str) -> dict[int, list[Message]]:
        """Read a topic of the target in the background; return its messages by partition, which grow."""
        found: dict[int, list[Message]] = {}
        self.go_on(self._read(topic, found))
        return found

    async def _read(self, topic: str, found: dict[int, list[Message]]) -> None:
        consumer = Consumer(self.target.address, **CLIENTS)
        self.addCleanup(consumer.close)
        (stream,) = consumer.create_message_streams(topic, 1)
        async for batch in stream.batches():
            found.setdefault(batch.partition, []).extend(batch.messages)

    async def until_mirrored(self, admin: Admin, topic: str) -> None:
        """Wait until the target has a topic."""
        while True:
            try:
                await admin.describe(topic)
            except LogdError:
                await deferLater(CLOCK, 0.05)
            else:
                return

    def log_of(self, mirror: MirrorProcess) -> str:
        """Return what a mirror has written to its log."""
        path = Path(mirror.log)
        return re.sub(r"\s+", " ", path.read_text()) if path.exists() else ""
