"""Connections of peers that send what they like, and a producer whose machine loses its network."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred, fail
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure

from logd.client.producer.producer import Producer
from logd.errors import CannotConnect
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.protocol.requests.legacy_requests import Produce
from logd.protocol.requests.requests import encode_request
from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.clocks import ProcessClock
from tests.simulation.ledger import Ledger
from tests.simulation.world import World


class Peer(Protocol):
    """One connection, which calls ``begin(peer)`` once it is made; what the broker sends is not looked at."""

    def __init__(self, begin: Callable[[Peer], None]) -> None:
        self._begin = begin
        self.is_connected = False

    def connectionMade(self) -> None:  # noqa: N802
        """See Protocol."""
        self.is_connected = True
        self._begin(self)

    def connectionLost(self, reason: Failure | None = None) -> None:  # noqa: N802
        """See Protocol."""
        self.is_connected = False

    def send(self, data: bytes) -> None:
        """Write, unless the connection is lost."""
        if self.is_connected:
            assert self.transport is not None
            self.transport.write(data)

    def hang_up(self) -> None:
        """Close the connection at once."""
        if self.is_connected:
            transport: Any = self.transport
            transport.abortConnection()


@define(eq=False)
class Peers:
    """Makes connections to brokers, each from a host of its own, and numbers the messages that they send."""

    world: World
    ledger: Ledger
    random: Random
    _made: int = field(default=0, init=False)
    _sent: int = field(default=0, init=False)

    def connect(self, broker: MemoryBroker, begin: Callable[[Peer], None]) -> None:
        """Connect to a broker; nothing happens if it cannot be reached."""
        host = self.new_host()
        clock = ProcessClock(self.world.clock)
        factory = Factory.forProtocol(lambda: Peer(begin))
        network = self.world.network
        network.endpoint(host, *broker.address, clock, timeout=3.0).connect(factory).addErrback(lambda _: None)

    def new_host(self) -> str:
        """Return the name of a new host."""
        self._made += 1
        return f"peer-{self._made}"

    def payload(self, name: str, topic: str, size: int) -> bytes:
        """Return a new message of a producer that nobody answers, known to the ledger."""
        self.ledger.careless.add(name)
        self._sent += 1
        return self.ledger.send(name, self._sent, topic, b"x" * size)

    def request(self, name: str, topic: str, partition: int, size: int) -> bytes:
        """Return a produce request of 0.7 with one such message."""
        message_set = encode_set([Message(self.payload(name, topic, size))])
        return b"".join(encode_request(Produce(topic, partition, message_set)))


@define(eq=False)
class LeavingProducer:
    """A producer with acks=0 whose machine stands still, wakes up without a network, and closes the producer.

    It stands still at the moment at which it sends, so the connection is lost before the message is written.
    """

    peers: Peers
    topic: str
    brokers: list[tuple[str, int]]
    _is_cut_off: bool = field(default=False, init=False)

    def begin(self) -> None:
        """Send one message a second, stand still after three seconds, and come to an end within ten."""
        peers, world = self.peers, self.peers.world
        host = peers.new_host()
        clock = ProcessClock(world.clock)
        reach = world.network.connector(host, clock, timeout=3.0)

        def connect(address: Any) -> Deferred[Any]:
            return fail(CannotConnect("no network")) if self._is_cut_off else reach(address)

        producer = Producer(
            self.brokers,
            reactor=clock,
            connect=connect,
            random=peers.random.random,
            acks=0,
            batch_messages=1,
            linger=0.0,
            retry_delay=0.1,
            retry_delay_limit=2.0,
        )
        world.network.graveyard.append((clock, producer))

        def send() -> None:
            producer.send(self.topic, [peers.payload(host, self.topic, 10)], partition=0).addErrback(lambda _: None)

        def stand_still() -> None:
            clock.pause()
            for wire in tuple(world.network.wires):
                if wire.ends[0].host.host == host:
                    world.network.cut(wire)
            clock.callLater(0.0, send)

        def wake_up() -> None:
            self._is_cut_off = True
            clock.resume()
            clock.callLater(0.1, producer.close, 1.0)

        def end() -> None:
            clock.kill()
            world.network.end_host(host)

        for at in (0.0, 1.0, 2.0):
            clock.callLater(at, send)
        for seconds, call in ((3.0, stand_still), (5.0, wake_up), (10.0, end)):
            world.clock.callLater(seconds, call)
