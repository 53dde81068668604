"""A test case with a coordination server and several brokers, each a process of its own."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from twisted.internet import reactor
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater

from logd.client.admin.admin import Admin
from logd.client.consumer.consumer import Consumer
from logd.client.producer.producer import Producer
from logd.protocol.requests.metadata import MetadataResponse
from logd.testing.processes.broker import BrokerProcess, free_port
from logd.testing.processes.coordination import CoordinationProcess
from logd.testing.processes.zookeeper import ZooKeeperProcess
from tests.integration.background import BackgroundTestCase
from tests.integration.peers import PATIENCE

CLOCK: Any = reactor
#: The shortest session that the server grants; for this long a killed broker still counts as live.
SESSION_MS = 4000
#: A session for tests that kill and pause no broker: no busy machine lets one of them be missed.
LONG_SESSION_MS = 40_000
CLIENTS: dict[str, Any] = {"reactor": reactor, "retry_delay": 0.02, "retry_delay_limit": 0.2}


class ClusterTestCase(BackgroundTestCase):
    """A coordination server and ``count`` brokers, whose ids are 1 to ``count``."""

    timeout = 240
    count = 2
    session_ms = SESSION_MS
    options: tuple[str, ...] = ()

    def setUp(self) -> Deferred[None]:  # type: ignore[override]  # trial waits for it
        """Start the tree, then the brokers."""
        self.folder = Path(os.path.abspath(self.mktemp()))
        self.folder.mkdir()
        self.tree = self.make_tree(str(self.folder / "tree"))
        self.tree.start()
        self.addCleanup(self.tree.kill)
        self.brokers = [self.broker(number) for number in range(1, self.count + 1)]
        return Deferred.fromCoroutine(self.all_there())

    def make_tree(self, folder: str) -> CoordinationProcess | ZooKeeperProcess:
        """Return the coordination server that the brokers will use, not started."""
        return CoordinationProcess(folder)

    async def all_there(self) -> None:
        """Wait until each broker knows all brokers."""
        for broker in self.brokers:
            await self.until_metadata(self.admin(broker), lambda found: len(found.brokers) == self.count)

    def broker(self, number: int, name: str = "") -> BrokerProcess:
        """Start a broker over a directory of its own."""
        options = ("--id", str(number), "--set", f"zookeeper.session.ms={self.session_ms}", *self.options)
        broker = BrokerProcess(str(self.folder / (name or f"broker{number}")), options, zookeeper=self.tree.hosts)
        self.addCleanup(broker.kill)
        broker.start()
        return broker

    @property
    def addresses(self) -> str:
        """The addresses of all brokers, as clients take them."""
        return ",".join(broker.address for broker in self.brokers)

    def admin(self, broker: BrokerProcess | None = None) -> Admin:
        """Return an Admin of one broker, or of all."""
        admin = Admin(self.addresses if broker is None else broker.address, **CLIENTS)
        self.addCleanup(admin.close)
        return admin

    def producer(self, address: str = "", **more: Any) -> Producer:
        """Return a producer that knows all brokers, or only ``address``."""
        producer = Producer(address or self.addresses, **{**CLIENTS, **more})
        self.addCleanup(producer.close)
        return producer

    def consumer(self, **more: Any) -> Consumer:
        """Return a consumer that knows all brokers."""
        consumer = Consumer(self.addresses, **{**CLIENTS, **more})
        self.addCleanup(consumer.close)
        return consumer

    async def until_metadata(self, admin: Admin, true: Callable[[MetadataResponse], bool]) -> MetadataResponse:
        """Ask for metadata until ``true`` accepts them, and return them."""
        while True:
            found = await admin.metadata()
            if true(found):
                return found
            await deferLater(CLOCK, 0.05)


def health_option() -> tuple[int, tuple[str, str]]:
    """Return a free port and the option that serves /health there."""
    port = free_port()
    return port, ("--http", f"tcp:{port}:interface=127.0.0.1")


def health(port: int) -> dict[str, Any]:
    """Return a broker's /health page, also one with an error status. Blocks."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/health", timeout=PATIENCE) as answer:
            page = answer.read()
    except HTTPError as error:
        page = error.read()
    value: dict[str, Any] = json.loads(page)
    return value
