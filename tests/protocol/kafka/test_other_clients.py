"""Tests that clients which are wrong on a port for today's Kafka are recognized by their first frame."""

from __future__ import annotations

from typing import Any

from kafka.protocol.admin import ListGroupsRequest
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import ApiVersionsRequest, MetadataRequest
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import ProtocolViolation
from logd.protocol.conversation.foreign import ForeignClient
from logd.protocol.kafka.apis import APIS
from logd.protocol.kafka.conversation import ApiVersions, KafkaConversation, NotServed
from logd.protocol.requests.legacy_requests import Fetch, MultiFetch, MultiProduce, Offsets, Produce
from logd.protocol.requests.metadata import Metadata, MetadataV1
from logd.protocol.requests.requests import encode_request
from tests.protocol.conversation.test_foreign import API_VERSIONS_3, API_VERSIONS_4, METADATA_0

#: First requests of clients of 0.7, with topics of all lengths that are versions of requests of today's Kafka.
LEGACY = [
    request
    for length in range(1, 20)
    for topic in ["t" * length]
    for request in (
        Produce(topic, 0, bytes(range(40))),
        Fetch(topic, 3, 1 << 33, 300_000),
        Offsets(topic, 0, -1, 10),
        MultiFetch((Fetch(topic, 0, 0, 100), Fetch("other", 1, 7, 100))),
        MultiFetch((Fetch(topic, 0, 0, 100),) * (2 + length % 9)),
        MultiProduce((Produce(topic, 1, bytes(20)),)),
    )
]
NATIVE = [Metadata(None), Metadata(("t", "u")), MetadataV1(None), MetadataV1(("t",), True)]


def sent(request: Any, client_id: str = "me") -> bytes:
    """Return the bytes of a request of kafka-python."""
    request.with_header(correlation_id=1, client_id=client_id)
    return bytes(request.encode(header=True, framed=True))


class OtherClientTests(SynchronousTestCase):
    """The first bytes of connections to a port for today's Kafka."""

    def told(self, data: bytes) -> ForeignClient:
        """Return the client that the conversation recognizes; check that the chunks do not matter."""
        for size in (len(data), 1, 5):
            conversation = KafkaConversation(1 << 20, "broker:6667")
            for at in range(0, len(data), size):
                self.assertEqual(conversation.receive_data(data[at : at + size]), [])
            self.assertIsInstance(conversation.violation, ForeignClient, data)
            self.assertEqual(conversation.unanswered, 0)
        assert isinstance(conversation.violation, ForeignClient)
        return conversation.violation

    def test_clients_of_0_7(self) -> None:
        """The text names the other port."""
        for request in LEGACY:
            foreign = self.told(b"".join(encode_request(request)))
            self.assertEqual(foreign.kind, "Kafka 0.7")
            for words in ("a client of Kafka 0.7", "broker:6667", "listen"):
                self.assertIn(words, str(foreign))

    def test_clients_of_logd(self) -> None:
        """They begin with Metadata, which is ListGroups to Kafka."""
        for request in NATIVE:
            self.assertEqual(self.told(b"".join(encode_request(request))).kind, "logd")

    def test_http_and_tls(self) -> None:
        """The remedy for TLS is an endpoint of this very setting."""
        self.assertEqual(self.told(b"GET / HTTP/1.1\r\n").kind, "HTTP")
        foreign = self.told(bytes([0x16, 3, 1, 2, 0, 1, 0, 1]))
        self.assertEqual(foreign.kind, "TLS")
        self.assertIn("setting kafka.listen", str(foreign))

    def test_clients_of_kafka_are_never_taken_for_others(self) -> None:
        """Whatever they begin with, and also for what is not served here."""
        requests: list[Any] = [
            *(MetadataRequest[version](topics=None) for version in range(1, 9)),
            *(ApiVersionsRequest[version]() for version in range(3)),
            *(ListOffsetsRequest[version](replica_id=-1, topics=[]) for version in APIS[2].versions),
            *(ListGroupsRequest[version]() for version in APIS[16].versions),
            ListGroupsRequest[5](states_filter=["Stable"], types_filter=["classic"]),
            FetchRequest[11](max_wait_ms=1, min_bytes=1, topics=[]),
            FetchRequest[12](max_wait_ms=1, min_bytes=1, topics=[]),
        ]
        for client_id in ("", "m", "me", "mee", "meme", "c" * 30):
            for data in (API_VERSIONS_3, API_VERSIONS_4, METADATA_0, *(sent(each, client_id) for each in requests)):
                conversation = KafkaConversation()
                self.assertEqual(len(conversation.receive_data(data)), 1, data)
                self.assertIsNone(conversation.violation)

    def test_only_the_first_frame_is_looked_at(self) -> None:
        """A client of Kafka that sends something wrong later is told of that."""
        conversation = KafkaConversation()
        self.assertEqual(len(conversation.receive_data(METADATA_0 + b"GET / HTTP/1.1\r\n")), 1)
        self.assertIsNotNone(conversation.violation)
        self.assertNotIsInstance(conversation.violation, ForeignClient)
        conversation = KafkaConversation()
        produce = b"".join(encode_request(Produce("t" * 15, 0, bytes(20))))
        _, (second, _) = conversation.receive_data(METADATA_0 + produce)
        wrong = self.assertRaises(ProtocolViolation, second.read, lambda: False)
        self.assertNotIsInstance(wrong, ForeignClient)

    def test_the_software_of_clients(self) -> None:
        """It is told by ApiVersions from version 3 on, also by a version that is not served."""
        for data, software in (
            (API_VERSIONS_3, "confluent-kafka-python 2.16.1-rdkafka-2.16.0"),
            (API_VERSIONS_4, "kafka-python 3.0.12"),
            (sent(ApiVersionsRequest[0]()), ""),
        ):
            ((unread, token),) = KafkaConversation().receive_data(data)
            request = unread.read(lambda: False)
            assert isinstance(request, ApiVersions)
            self.assertTrue(software.startswith(request.software[:20]), request)
            self.assertEqual(bool(software), bool(request.software))
            self.assertIn(token.header.client_id, ("rdkafka", "kafka-python-producer-1", "me"))

    def test_a_request_that_is_not_served(self) -> None:
        """It is one of Kafka's, and is answered."""
        ((unread, _),) = KafkaConversation().receive_data(sent(FetchRequest[12](topics=[])))
        self.assertEqual(unread.read(lambda: False), NotServed(1, 12))
