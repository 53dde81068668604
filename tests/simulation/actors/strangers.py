"""Producers of 0.7: they get no answers, so they never wait or send again; some of their sets are bad."""

from __future__ import annotations

from random import Random
from zlib import crc32

from attrs import define, field
from twisted.internet.protocol import Factory, Protocol
from twisted.python.failure import Failure

from logd.protocol.batch import encode_batch
from logd.protocol.batch_layout import with_leader_epoch
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.protocol.requests.legacy_requests import Produce
from logd.protocol.requests.requests import encode_request
from logd.protocol.wrapper import encode_wrapper
from logd.testing.memory.clocks import ProcessClock
from tests.simulation.actors.reading import MOST_BYTES, MOST_MESSAGES
from tests.simulation.ledger import BOMB, Ledger
from tests.simulation.world import World

#: Messages of a wrapper with fewer bytes than messages.
MANY = 200
#: Requests of one producer in all its lives, which is also the length of a burst.
REQUESTS = 40


@define(eq=False)
class LegacyProducer:
    """A producer that sends sets to brokers for as long as it lives; it replaces a connection that breaks.

    Sets that a broker must refuse hold payloads that the ledger does not know, so that no reader may ever get them. So
    do wrappers that brokers store and readers refuse, since they would expand to too much.
    """

    world: World
    ledger: Ledger
    host: str
    brokers: list[tuple[str, int]]
    topics: list[str]
    pace: float
    random: Random = field(init=False)
    clock: ProcessClock | None = field(default=None, init=False)
    sent: int = field(default=0, init=False)
    _connections: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        self.random = self.world.random(self.host)

    def start(self) -> None:
        """Begin a life."""
        self.clock = ProcessClock(self.world.clock)
        self._connect_later()

    def kill(self) -> None:
        """End at once."""
        if self.clock is not None:
            self.clock.kill()
            self.world.network.graveyard.append(self.clock)
            self.clock = None
            self.world.network.end_host(self.host)

    def _connect_later(self) -> None:
        if self.clock is not None and self.sent < REQUESTS:
            self.clock.callLater(self.random.random(), self._connect, self.clock)

    def _connect(self, clock: ProcessClock) -> None:
        host, port = self.random.choice(self.brokers)
        self._connections += 1
        factory = Factory.forProtocol(lambda: _Connection(self, clock, f"{self.host}.{self._connections}"))
        connecting = self.world.network.endpoint(self.host, host, port, clock, timeout=3.0).connect(factory)
        connecting.addErrback(lambda _: self._connect_later())

    def request(self, name: str) -> bytes:
        """Return the next request of connection ``name``."""
        random, topic = self.random, self.random.choice(self.topics)
        kind = random.choice(["plain"] * 6 + ["batch"] * 2 + ["many", "torn", "not gzip", "bomb"])
        if kind == "torn":
            data = bytearray(encode_set([Message(b"torn/0/")]))
            data[-1] ^= 1
            entries = bytes(data)
        elif kind == "not gzip":
            entries = _not_gzip(encode_wrapper("gzip", encode_set([Message(b"poison/0/")])))
        elif kind == "bomb":
            messages = random.choice([[BOMB] * (MOST_MESSAGES + 1), [BOMB + bytes(MOST_BYTES)]])
            entries = encode_wrapper("gzip", encode_set([Message(payload) for payload in messages]))
        else:
            payload = self.ledger.send(name, self.sent, topic, b"")
            repeated = [Message(payload)] * (MANY if kind == "many" else 1)
            if kind == "batch":
                entries = with_leader_epoch(encode_batch(repeated), random.choice([-1, 3]))
            else:
                entries = encode_set(repeated)
            if kind == "many":
                entries = encode_wrapper("gzip", entries)
        self.sent += 1
        self.world.trace.note(name, "sends", (topic, kind))
        return b"".join(encode_request(Produce(topic, -1, entries)))


class _Connection(Protocol):
    def __init__(self, producer: LegacyProducer, clock: ProcessClock, name: str) -> None:
        self._producer = producer
        self._clock = clock
        self._name = name
        self._connected = False

    def connectionMade(self) -> None:  # noqa: N802
        """See Protocol."""
        self._connected = True
        self._send()

    def connectionLost(self, reason: Failure | None = None) -> None:  # noqa: N802
        """See Protocol."""
        self._connected = False
        if not self._clock.dead:
            self._producer._connect_later()

    def _send(self) -> None:
        producer, transport = self._producer, self.transport
        if self._connected and producer.sent < REQUESTS:
            assert transport is not None
            transport.write(producer.request(self._name))
            self._clock.callLater(2 * producer.pace * producer.random.random(), self._send)


def _not_gzip(wrapper: bytes) -> bytes:
    """Return a wrapper that no consumer could open, with a checksum that holds."""
    payload = b"no" + wrapper[12:]
    return wrapper[:6] + crc32(payload).to_bytes(4, "big") + payload
