"""Tests of the ports of a broker, on a reactor in memory."""

from __future__ import annotations

from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.protocol import Factory
from twisted.internet.testing import MemoryReactorClock
from twisted.trial.unittest import SynchronousTestCase

from logd.broker.listening.addresses import Address
from logd.broker.listening.ports import BrokerPorts, is_loopback
from logd.config import BrokerSettings
from logd.config.kafka import KafkaSettings
from logd.config.security import SecuritySettings
from logd.errors import ConfigurationError

LOOPBACK = "tcp:9092:interface=127.0.0.1"


class Reactor(MemoryReactorClock):
    """A reactor in memory whose ports tell the interface that they are bound to, and if they were closed."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted has no annotations there
        self.closed: list[int] = []

    def listenTCP(self, port: int, factory: Any, backlog: int = 50, interface: str = "") -> Any:  # noqa: N802
        """See IReactorTCP."""
        made: Any = super().listenTCP(port, factory, backlog, interface)  # type: ignore[no-untyped-call]  # as above
        made._hostAddress = IPv4Address("TCP", interface or "0.0.0.0", port)
        if ":" in interface:
            made._hostAddress = IPv6Address("TCP", interface, port)
        made.stopListening = lambda: self.closed.append(port)
        return made


class PortsTests(SynchronousTestCase):
    """The addresses that clients are told, and the listeners that are refused."""

    def addresses(self, open_to_network: bool = False, required: bool = False, **kafka: Any) -> list[Address]:
        """Listen at every endpoint; return the address of each."""
        security = SecuritySettings(open_to_network=open_to_network, security_required=required)
        more = {f"kafka_{name}": value for name, value in kafka.items()}
        settings = BrokerSettings(
            data="d",
            listen="tcp:6667:interface=127.0.0.1",
            advertise="broker.example:6000",
            kafka=KafkaSettings(**more),
            security=security,
        )
        self.reactor = Reactor()
        ports, factory = BrokerPorts(self.reactor, settings), Factory()
        found = [ports.listen(factory, "listen", 0).advertised]
        for place in range(len(settings.kafka.endpoints)):
            found.append(ports.listen(factory, "kafka.listen", place).advertised)
        return found

    def test_other_brokers_tell_the_address_that_is_bound(self) -> None:
        """A listener of every address of the machine is told by the host of native clients."""
        found = self.addresses(listen=[LOOPBACK, "tcp:9093", "tcp:9094"], open_to_network=True)
        self.assertEqual(
            found,
            [("broker.example", 6000), ("127.0.0.1", 9092), ("broker.example", 9093), ("broker.example", 9094)],
        )

    def test_advertised_addresses_belong_to_their_listeners(self) -> None:
        """A dash stands for a listener without one, and those behind the last address have none."""
        listen = [LOOPBACK, "tcp:9093:interface=127.0.0.1", "tcp:9094:interface=127.0.0.1"]
        found = self.addresses(listen=listen, advertise=["-", "kafka.example:19093"])
        self.assertEqual(found[1:], [("127.0.0.1", 9092), ("kafka.example", 19093), ("127.0.0.1", 9094)])

    def test_a_listener_is_open_to_the_network_only_when_told(self) -> None:
        """The error names the endpoint and both remedies, and the port is closed again."""
        for endpoint in ("tcp:9092", "tcp:9092:interface=10.0.0.5", "tcp6:9092"):
            with self.assertRaises(ConfigurationError) as caught:
                self.addresses(listen=endpoint)
            self.assertEqual(self.reactor.closed, [9092])
            for words in (repr(endpoint), "security.required", "interface=127.0.0.1", "--open-to-network"):
                self.assertIn(words, str(caught.exception))
            self.assertEqual(len(self.addresses(listen=endpoint, open_to_network=True)), 2)
            self.assertEqual(len(self.addresses(listen=endpoint, required=True)), 2)

    def test_a_listener_without_a_port_is_refused(self) -> None:
        """Kafka's clients know hosts and ports alone."""
        with self.assertRaises(ConfigurationError) as caught:
            self.addresses(listen="unix:/tmp/kafka")
        self.assertIn("connect by TCP", str(caught.exception))

    def test_loopback(self) -> None:
        """All that only this machine can reach."""
        hosts = ("127.0.0.1", "127.9.9.9", "::1", "localhost", "0.0.0.0", "::", "", "10.0.0.5", "fe80::1%eth0")
        self.assertEqual([is_loopback(host) for host in hosts], [True] * 4 + [False] * 5)
