"""Tests of the faults of connections, without a network."""

from __future__ import annotations

from typing import Any

from twisted.internet.address import IPv4Address
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Factory, Protocol
from twisted.internet.task import Clock
from twisted.internet.testing import StringTransport
from twisted.python.failure import Failure
from twisted.trial.unittest import SynchronousTestCase

from logd.config import BrokerSettings
from logd.config.kafka import KafkaSettings
from logd.testing.kafka_brokers.connection_faults import ConnectionFaults, FaultyPorts

_PEER = IPv4Address("TCP", "127.0.0.1", 1)


class _Seen(Protocol):
    """Notes what arrives, and the end."""

    def __init__(self) -> None:
        self.received: list[bytes] = []
        self.lost = False

    def dataReceived(self, data: bytes) -> None:  # noqa: N802  # Twisted's name
        self.received.append(data)

    def connectionLost(self, reason: Failure | None = None) -> None:  # noqa: N802  # as above
        self.lost = True


class ConnectionFaultsTests(SynchronousTestCase):
    """Faults between a client and the broker's protocol."""

    def setUp(self) -> None:
        """Build what a listener of Kafka's clients has, with one connection."""
        self.clock = Clock()
        self.faults = ConnectionFaults(self.clock)
        self.factory = self.listened()
        self.protocol = self.connect()

    def listened(self) -> Factory:
        """Return the factory that listens for Kafka's clients in place of one of _Seen."""
        given: list[Factory] = []

        class Port:
            def getHost(self) -> IPv4Address:  # noqa: N802  # Twisted's name
                return IPv4Address("TCP", "127.0.0.1", 9092)

        class Reactor(Clock):
            def listenTCP(self, port: int, factory: Factory, **more: Any) -> Port:  # noqa: N802  # Twisted's name
                given.append(factory)
                return Port()

        settings = BrokerSettings(data="d", kafka=KafkaSettings(kafka_listen="tcp:9092:interface=127.0.0.1"))
        ports = FaultyPorts(Reactor(), settings, self.faults)
        seen: Any = Factory.forProtocol(_Seen)
        ports.listen(seen, "listen", 0)
        ports.listen(seen, "kafka.listen", 0)
        native, kafka = given
        self.assertIs(native, seen)
        return kafka

    def connect(self) -> Any:
        """Return the protocol of a new connection."""
        protocol: Any = self.factory.buildProtocol(_PEER)
        protocol.makeConnection(StringTransport())
        self.seen: _Seen = protocol._inner
        return protocol

    def test_the_broker_s_protocol_has_the_transport_itself(self) -> None:
        """Whole files are sent by the descriptor of the transport, so nothing may stand before it."""
        self.assertIs(self.seen.transport, self.protocol.transport)

    def test_without_a_fault_bytes_pass_at_once(self) -> None:
        """No timer is needed for them."""
        self.protocol.dataReceived(b"a")
        self.assertEqual(self.seen.received, [b"a"])
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_late_bytes_keep_their_order(self) -> None:
        """Bytes that come after the end of a delay wait for those that came before it."""
        self.faults.seconds = 2.0
        self.protocol.dataReceived(b"a")
        self.faults.seconds = 0.0
        self.protocol.dataReceived(b"b")
        self.clock.advance(1.9)
        self.assertEqual(self.seen.received, [])
        self.clock.advance(0.2)
        self.assertEqual(self.seen.received, [b"a", b"b"])
        self.protocol.dataReceived(b"c")
        self.assertEqual(self.seen.received, [b"a", b"b", b"c"])

    def test_a_lost_connection_leaves_no_timer(self) -> None:
        """Late bytes of a lost connection never arrive."""
        self.faults.seconds = 2.0
        self.protocol.dataReceived(b"a")
        self.protocol.connectionLost(Failure(ConnectionDone()))
        self.assertEqual(self.clock.getDelayedCalls(), [])
        self.assertTrue(self.seen.lost)
        self.assertEqual(self.faults.drop(), 0)

    def test_a_drop_cuts_off_every_connection(self) -> None:
        """Connections that are lost already are not counted."""
        first = self.protocol
        second = self.connect()
        self.assertEqual(self.faults.drop(), 2)
        self.assertTrue(first.transport.disconnecting)
        self.assertTrue(second.transport.disconnecting)
