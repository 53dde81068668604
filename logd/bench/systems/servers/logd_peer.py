"""logd itself as one of the measured systems."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import ClassVar

from attrs import define

from logd import __version__
from logd.bench.systems.peer import Peer, PeerClient
from logd.bench.systems.places import SystemPlaces
from logd.client.producer.producer import Producer
from logd.testing.processes.broker import BrokerProcess

_MODULE = "logd.bench.systems.clients.logd_client"
_SEND = PeerClient("logd", _MODULE, paced=True, acks=(0, 1, -1), option="send")
_PUBLISH = PeerClient("logd publish", _MODULE, batches=(1, 0), consumes=False, acks=(0, 1, -1), option="publish")


@define(eq=False)
class LogdPeer(Peer):
    """``twistd -n logd`` with its defaults."""

    name: ClassVar[str] = "logd"
    durability: ClassVar[str] = (
        "acks 1: appended by the broker, flushed to the disk within moments; acks -1: flushed to the disk; acks 0: not "
        "acknowledged; readers see flushed messages only"
    )
    clients: ClassVar[tuple[PeerClient, ...]] = (_SEND, _PUBLISH) if hasattr(Producer, "publish") else (_SEND,)

    @classmethod
    def missing(cls, places: SystemPlaces) -> str:
        """See Peer."""
        return ""

    @property
    def version(self) -> str:
        """See Peer."""
        return __version__

    def launch(self) -> None:
        """See Peer."""
        self.start_broker(self.port)

    def start_broker(self, port: int, options: Sequence[str] = ()) -> None:
        """Start the broker with its native listener at ``port``."""
        broker = BrokerProcess(self.data, options, port, log_path=f"{self.folder}/log")
        try:
            broker.start()
        finally:  # also after Ctrl-C, for ``stop``
            self.process = broker.process

    def create(self, topic: str) -> None:
        """See Peer."""
        self.create_at(self.port, topic)

    def create_at(self, port: int, topic: str) -> None:
        """Create a topic by the native listener at ``port``."""
        command = [sys.executable, "-c", "from logd.cli.main import main; main()", "topics", "create", topic]
        self.call([*command, "--broker", f"127.0.0.1:{port}"], {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
