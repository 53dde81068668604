"""Tests of clients that are wrong on a port, of the names of clients, and of what is not served."""

from __future__ import annotations

from struct import pack, unpack
from typing import Any

from kafka.protocol.consumer import FetchRequest, JoinGroupRequest
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest
from kafka.protocol.sasl import SaslAuthenticateRequest, SaslHandshakeRequest
from prometheus_client import CollectorRegistry

from logd.broker.counters import MOST_SOFTWARE, KafkaCounters
from logd.broker.metrics.broker_metrics import BrokerMetrics
from logd.broker.shutdown import STOP_POLL_SECONDS
from logd.config.kafka import KafkaSettings
from logd.protocol.kafka.apis import APIS
from logd.protocol.requests.legacy_requests import Produce
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.requests import encode_request
from tests.broker.kafka.rig import KafkaPeer, KafkaTestCase
from tests.net.doubles import PeerTransport
from tests.protocol.conversation.test_foreign import API_VERSIONS_3


class ListeningTestCase(KafkaTestCase):
    """A broker with two listeners for Kafka's clients that its own settings name."""

    options: dict[str, Any] = {"kafka": KafkaSettings(kafka_listen=["tcp:1", "tcp:2"])}  # noqa: RUF012

    def call(self, place: int = 0) -> KafkaPeer:
        """Connect to a listener."""
        connection = self.ports["kafka.listen", place].buildProtocol(None)
        peer = KafkaPeer(connection, PeerTransport(host="10.0.0.8"))
        self.peers.append(peer)
        connection.makeConnection(peer.transport)
        peer.pump()
        return peer

    def raw(self, peer: KafkaPeer, key: int, version: int, body: bytes = b"", client_id: bytes = b"raw") -> bytes:
        """Send one request and return the body of its answer."""
        request = pack(">hhih", key, version, 77, len(client_id)) + client_id + body
        peer.send_bytes(pack(">i", len(request)) + request)
        self.settle()
        answer = peer.received()
        size, correlation_id = unpack(">ii", answer[:8])
        self.assertEqual((size, correlation_id), (len(answer) - 4, 77))
        return answer[8:]


class WrongClientTests(ListeningTestCase):
    """Each is told once in the log, with its address and the remedy, and counted."""

    def test_on_a_port_for_kafka(self) -> None:
        """Clients of 0.7, of logd, of HTTP, of TLS; the listeners count together."""
        calls = {
            "a client of Kafka 0.7 called": b"".join(encode_request(Produce("topic", 0, bytes(30)))),
            "a client of logd called": b"".join(encode_request(Metadata(None))),
            "an HTTP client called": b"GET /health HTTP/1.1\r\n\r\n",
            "a TLS client called": b"\x16\x03\x01\x02\x00\x01\x00\x01",
        }
        for words, data in calls.items():
            for place in (0, 1, 1):
                peer = self.call(place)
                peer.send_bytes(data)
                self.settle()
                self.assertEqual((peer.lost, peer.received()), (True, b""))
            (line,) = self.events.warnings(words)
            self.assertIn("10.0.0.8:40000", line)
        self.assertEqual(self.broker.counters.foreign_calls, {"Kafka 0.7": 3, "logd": 3, "HTTP": 3, "TLS": 3})
        self.assertIn("broker.example:6667", self.events.warnings("a client of logd called")[0])

    def test_on_the_native_port(self) -> None:
        """A client of today's Kafka is told the ports for it."""
        peer = self.connect()
        peer.send_bytes(API_VERSIONS_3)
        self.settle()
        (line,) = self.events.warnings("Kafka 0.8 or later")
        self.assertIn("have it connect to the port for such clients, broker.example:6667 or broker.example:6668", line)
        self.assertEqual(self.broker.counters.foreign_calls, {"Kafka": 1})


class NamesTests(ListeningTestCase):
    """The names that clients tell of themselves."""

    def test_a_log_line_has_the_names(self) -> None:
        """A bad request of a client is found in its program."""
        peer = self.call()
        peer.send_bytes(API_VERSIONS_3 + bytes(4))
        self.settle()
        (line,) = self.events.warnings("a frame of 0 bytes")
        self.assertIn("10.0.0.8:40000 (client id 'rdkafka', confluent-kafka-python 2.16.1", line)

    def test_control_characters_are_shown_as_such(self) -> None:
        """A client id is any text."""
        peer = self.call()
        self.raw(peer, 18, 0, client_id=b"\x1b[2J\n" + b"x" * 1000)
        peer.send_bytes(bytes(4))
        self.settle()
        (line,) = self.events.warnings("a frame of 0 bytes")
        self.assertIn(r"\x1b[2J\nxxx", line)
        self.assertLess(len(line), 500)

    def test_the_kinds_of_software_are_bounded(self) -> None:
        """Further ones are counted together."""
        counters = KafkaCounters()
        self.assertEqual([counters.named(name) for name in ("a", "b", "a")], [True, True, False])
        for number in range(3 * MOST_SOFTWARE):
            counters.named(str(number))
        self.assertEqual((len(counters.software), counters.software["a"]), (MOST_SOFTWARE + 1, 2))
        self.assertEqual(sum(counters.software.values()), 3 + 3 * MOST_SOFTWARE)


class NotServedTests(ListeningTestCase):
    """Requests that are answered although they are not served."""

    def test_versions_of_api_versions(self) -> None:
        """One that is not known is answered in the form of version 0, with the error and the ranges."""
        peer = self.call()
        for version in (4, 5, 999, 32767, -1):
            answer = self.raw(peer, 18, version, b"any bytes at all")
            error, count = unpack(">hi", answer[:6])
            rows = [unpack(">hhh", answer[at : at + 6]) for at in range(6, len(answer), 6)]
            self.assertEqual((error, count, len(answer)), (35, len(APIS), 6 + 6 * count))
            self.assertEqual({key: (first, last) for key, first, last in rows}[18], (0, 3))
            self.assertIn((17, 0, 1), rows)
            self.assertIn((36, 0, 1), rows)
        self.assertEqual(self.raw(peer, 18, 0)[:2], b"\0\0")

    def test_unknown_requests_and_versions(self) -> None:
        """The connection stays as it is."""
        peer = self.call()
        for key, version in ((999, 0), (-1, 0), (1, 12), (3, 99), (24, 0), (3, -1)):
            self.assertEqual(self.raw(peer, key, version), b"\0\x23", key)
        self.assertEqual(self.raw(peer, 18, 0)[:2], b"\0\0")
        self.assertFalse(peer.lost)

    def test_authentication(self) -> None:
        """It is refused with a reason, and without SASL the client is served."""
        peer = self.call()
        for version in (0, 1):
            answer = self.ask(peer, SaslHandshakeRequest[1](mechanism="PLAIN"))
            self.assertEqual((answer.error_code, answer.mechanisms), (33, []))
            answer = self.ask(peer, SaslAuthenticateRequest[version](auth_bytes=b"\0me\0secret"))
            self.assertEqual((answer.error_code, answer.auth_bytes), (33, b""))
            self.assertIn("without SASL", answer.error_message)
        self.assertEqual(self.ask(peer, MetadataRequest[1](topics=[])).controller_id, 0)


class MetricsTests(ListeningTestCase):
    """The counters of Kafka's clients."""

    def figures(self) -> dict[str, float]:
        """Return the metrics about Kafka's clients, by name and labels."""
        registry = CollectorRegistry()
        registry.register(BrokerMetrics(self.broker))
        return {
            " ".join((sample.name.removeprefix("logd_"), *sample.labels.values())): sample.value
            for metric in registry.collect()
            for sample in metric.samples
            if "kafka" in sample.name or "foreign" in sample.name
        }

    def test_requests_errors_and_software(self) -> None:
        """Each by its own name; a request without an answer is counted as well."""
        peer, gone = self.call(), self.call(1)
        gone.lose()
        self.connect().send_bytes(API_VERSIONS_3)
        peer.send_bytes(API_VERSIONS_3)
        self.settle()
        peer.received()
        self.raw(peer, 999, 0)
        self.kafka_produce(peer, "t", b"nothing like a batch, but as long as one's head: " + bytes(61))
        self.assertEqual(
            self.figures(),
            {
                "foreign_calls_total Kafka": 1,
                "kafka_connections": 1,
                "kafka_connections_accepted_total": 2,
                "kafka_requests_total ApiVersions": 1,
                "kafka_requests_total unknown": 1,
                "kafka_requests_total Produce": 1,
                "kafka_errors_total Produce 2": 1,
                "kafka_clients_total confluent-kafka-python 2.16.1-rdkafka-2.16.0": 1,
            },
        )


class LimitsTests(ListeningTestCase):
    """Limits that hold over all listeners together."""

    options: dict[str, Any] = {  # noqa: RUF012
        "kafka": KafkaSettings(kafka_listen=["tcp:1", "tcp:2"]), "connections_max": 3, "frames_bytes": 3 << 20,
        "frame_bytes": 2 << 20, "fetch_max_bytes": 2 << 20,
    }  # fmt: skip
    log_options: dict[str, Any] = {"message_bytes": 1 << 20}  # noqa: RUF012

    def test_connections(self) -> None:
        """One too many is refused at whatever port it comes to."""
        peers = [self.connect(), self.call(0), self.call(1)]
        refused = [self.call(0), self.connect()]
        self.assertEqual([peer.transport.disconnecting or peer.lost for peer in peers], [False] * 3)
        self.assertEqual(self.broker.counters.connections_refused, 2)
        for peer in refused:
            self.peers.remove(peer)
        peers[0].lose()
        self.assertEqual(self.raw(self.call(0), 18, 0)[:2], b"\0\0")

    def test_memory_of_incomplete_requests(self) -> None:
        """The oldest one of all is closed."""
        begun = pack(">i", 2 << 20) + bytes((2 << 20) - 10)
        first, second = self.connect(), self.call()
        first.send_bytes(begun)
        self.settle()
        second.send_bytes(begun)
        self.settle()
        self.assertEqual((first.lost, second.lost), (True, False))
        self.assertEqual(len(self.events.warnings("frames.bytes")), 1)


class StopTests(ListeningTestCase):
    """The stop of a broker with waiting clients of Kafka."""

    def new_tree(self) -> None:
        """Make an empty tree, whose clock begins where the broker's does: a coordinator compares the two."""
        super().new_tree()
        self.tree_clock.advance(1_600_000_000)

    def test_waiting_fetches_are_answered(self) -> None:
        """The stop does not last as long as they would wait, and no listener is left open."""
        self.create("t")
        peer = self.call()
        part = FetchRequest.FetchTopic.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        topic = FetchRequest.FetchTopic(topic="t", partitions=[part])
        peer.send(FetchRequest[4](max_wait_ms=600_000, min_bytes=1, max_bytes=1000, topics=[topic]))
        self.settle()
        self.assertEqual(peer.answers(), [])
        self.running = False
        stopping = self.assembly.stop()
        self.settle()
        (answer,) = peer.answers()
        self.clock.advance(STOP_POLL_SECONDS)
        self.settle()
        self.assertTrue(self.successResultOf(stopping).clean)
        self.assertEqual(answer.responses[0].partitions[0].error_code, 0)
        self.assertTrue(peer.lost)

    def test_waiting_joins_are_answered(self) -> None:
        """A member that waits for others is told to look for the group's coordinator elsewhere."""
        peer = self.call()
        protocol = JoinGroupRequest.JoinGroupRequestProtocol(name="range", metadata=b"mine")
        more = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000, "member_id": ""}
        self.assertEqual(self.ask(peer, FindCoordinatorRequest[1](key="g", key_type=0)).error_code, 0)
        peer.send(JoinGroupRequest[3](group_id="g", protocol_type="consumer", protocols=[protocol], **more))
        self.settle()
        self.assertEqual(peer.answers(), [])
        self.running = False
        stopping = self.assembly.stop()
        self.settle()
        (answer,) = peer.answers()
        self.clock.advance(STOP_POLL_SECONDS)
        self.settle()
        self.assertTrue(self.successResultOf(stopping).clean)
        self.assertIn(answer.error_code, (15, 16))
