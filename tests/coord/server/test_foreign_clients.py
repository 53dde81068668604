"""Tests of clients of other protocols that call at the port of the coordination tree."""

from __future__ import annotations

from struct import pack
from typing import cast

from twisted.logger import ILogObserver, LogEvent, formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from logd.net.limits.foreign_callers import AGAIN_AFTER
from logd.protocol.requests.legacy_requests import Fetch
from logd.protocol.requests.metadata import Metadata, MetadataV1
from logd.protocol.requests.requests import encode_request
from tests.coord.server.rig import Rig
from tests.protocol.conversation.test_foreign import API_VERSIONS_3, API_VERSIONS_4, METADATA_0

GET = b"GET / HTTP/1.1\r\nHost: 127.0.0.1:2181\r\n\r\n"


class ForeignClientTests(SynchronousTestCase):
    """The lines of the log that name a caller."""

    def setUp(self) -> None:
        """Start a server, and keep what is logged."""
        self.rig = Rig()
        self.events: list[LogEvent] = []
        observer = cast(ILogObserver, self.events.append)
        globalLogPublisher.addObserver(observer)
        self.addCleanup(globalLogPublisher.removeObserver, observer)

    def lines(self) -> list[str]:
        """Return what was logged since the last call."""
        found = [formatEvent(event) for event in self.events]
        self.events.clear()
        return found

    def told(self, data: bytes) -> str:
        """Return the line about a client that sends these bytes; check that the chunks do not matter."""
        for size in (len(data), 1, 5):
            self.rig.clock.advance(AGAIN_AFTER)
            self.lines()
            client = self.rig.connect()
            for at in range(0, len(data), size):
                client.send(data[at : at + size])
            self.assertEqual((client.closed, client.transport.value()), (True, b""))
            client.lose()
            (line,) = self.lines()
            self.assertTrue(line.startswith("127.0.0.1:1: closed, "), line)
        return line

    def test_http_and_tls_are_named_with_the_remedy(self) -> None:
        """POST is four letters, but none of ZooKeeper's words."""
        for data in (GET, b"POST / HTTP/1.0\r\n", b"HEAD / HTTP/1.0\r\n"):
            self.assertIn("an HTTP client called, and this port does not speak HTTP", self.told(data))
        line = self.told(bytes([0x16, 3, 1, 2, 0, 1, 0, 1]))
        self.assertIn("a TLS client called, and this port does not speak TLS", line)
        self.assertIn("zookeeper.listen", line)

    def test_clients_of_brokers_are_named_with_the_remedy(self) -> None:
        """They were given the address of the tree in place of a broker's."""
        for request, words in (
            (Metadata(None), "a client of logd called"),
            (MetadataV1(("t",), True), "a client of logd called"),
            (Fetch("t", 0, 0, 1000), "a client of Kafka 0.7 called"),
        ):
            line = self.told(b"".join(encode_request(request)))
            self.assertIn(f"{words}, and this port serves the coordination tree; have it connect to a broker", line)
        for data, words in (
            (API_VERSIONS_3, "ApiVersions version 3, client id 'rdkafka', confluent-kafka-python 2.16.1"),
            (API_VERSIONS_4, "ApiVersions version 4"),
            (METADATA_0, "Metadata version 0, client id 'rdkafka'"),
        ):
            line = self.told(data)
            self.assertIn(f"a client of Kafka 0.8 or later called ({words}", line)
            self.assertIn("and this port serves the coordination tree; have it connect to a broker", line)

    def test_what_is_nobodys_first_request_is_told_as_before(self) -> None:
        """So is a bad frame of a client that has a session: it speaks the protocol."""
        self.assertIn("that was not the first request of a ZooKeeper client", self.told(pack(">i", 3) + b"abc"))
        client = self.rig.client()
        self.lines()
        client.send(GET)
        (line,) = self.lines()
        self.assertIn("a frame of 1195725856 bytes", line)

    def test_a_caller_that_tries_again_costs_one_line_a_minute(self) -> None:
        """Each call is a violation of the protocol all the same."""
        for _ in range(5):
            self.rig.connect().send(GET)
        self.assertEqual(len(self.lines()), 1)
        self.assertEqual(self.rig.server.counters.protocol_violations, 5)
        self.rig.clock.advance(AGAIN_AFTER)
        self.rig.connect().send(GET)
        (line,) = self.lines()
        self.assertIn("(4 more such calls from 127.0.0.1 since the last such line)", line)
