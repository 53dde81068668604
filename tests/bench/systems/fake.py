"""A system that only listens, and a client that only pretends: what the frame of the comparison is tried with."""

from __future__ import annotations

import sys
from typing import ClassVar

from attrs import define

from logd.bench.systems.client_main import run_client
from logd.bench.systems.load import Load, Stopwatch
from logd.bench.systems.peer import Peer, PeerClient
from logd.bench.systems.places import SystemPlaces
from logd.errors import LogdError

_MODULE = "tests.bench.systems.fake"
_SERVER = """
import pathlib, socket, sys
server = socket.create_server(("127.0.0.1", int(sys.argv[1])))
pathlib.Path(sys.argv[2], "log").write_bytes(bytes(8192))
while True:
    server.accept()[0].close()
"""


@define(eq=False)
class FakePeer(Peer):
    """A process that accepts connections and writes 8,192 bytes when it starts."""

    name: ClassVar[str] = "fake"
    durability: ClassVar[str] = "nothing survives"
    clients: ClassVar[tuple[PeerClient, ...]] = (
        PeerClient("honest", _MODULE, paced=True),
        PeerClient("forgetful", _MODULE, batches=(0,), acks=(0, 1, -1), option="forget"),
        PeerClient("failing", _MODULE, batches=(0,), option="fail"),
        PeerClient("absent", _MODULE, "no_such_package", "no-such-distribution"),
    )

    @classmethod
    def missing(cls, places: SystemPlaces) -> str:
        """See Peer."""
        return ""

    def launch(self) -> None:
        """See Peer."""
        self.run([sys.executable, "-c", _SERVER, str(self.port), self.data])


class MissingPeer(FakePeer):
    """A system that is not on this machine."""

    name: ClassVar[str] = "missing"

    @classmethod
    def missing(cls, places: SystemPlaces) -> str:
        """See Peer."""
        return "nobody has written it"


class BrokenPeer(FakePeer):
    """A system that ends at once."""

    name: ClassVar[str] = "broken"

    def launch(self) -> None:
        """See Peer."""
        self.run([sys.executable, "-c", "raise SystemExit('out of order')"])


def produce(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main."""
    if option == "fail":
        raise LogdError("no luck")
    watch.start()
    watch.stop(sum(1 for payload in load.payloads() if len(payload) == load.size))


def consume(address: str, load: Load, option: str, watch: Stopwatch) -> None:
    """See client_main; forgets one message when told to."""
    watch.start()
    if load.rate:
        for payload in load.payloads():
            watch.note(payload)
    watch.stop(load.messages - (option == "forget"))


if __name__ == "__main__":
    run_client(produce, consume)
