"""Tests that clients of other protocols are recognized. The bytes of Kafka's clients are those that they sent."""

from __future__ import annotations

from struct import pack

from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.conversation.foreign import ForeignClient, is_api_versions
from logd.protocol.conversation.server import ServerConversation
from logd.protocol.requests.fetch_session import FetchWaitV1, NewPart
from logd.protocol.requests.legacy_requests import Fetch, MultiFetch, MultiProduce, Offsets, Produce
from logd.protocol.requests.metadata import Metadata
from logd.protocol.requests.requests import Unsupported, encode_request
from tests.protocol.test_documentation import REQUESTS

#: First frames of librdkafka 2.16.1 (confluent-kafka), kafka-python 3.0.12, and librdkafka set to a broker of 0.8.2.
API_VERSIONS_3 = bytes.fromhex(
    "000000400012000300000001000772646b61666b610017636f6e666c75656e742d6b61666b612d707974686f6e16322e31362e312d72646b6166"
    "6b612d322e31362e3000"
)
API_VERSIONS_4 = bytes.fromhex(
    "00000037001200040000000100176b61666b612d707974686f6e2d70726f64756365722d31000d6b61666b612d707974686f6e07332e302e3132"
    "00"
)
METADATA_0 = bytes.fromhex("000000150003000000000001000772646b61666b6100000000")


def framed(body: bytes) -> bytes:
    """Return the frame of ``body``."""
    return pack(">i", len(body)) + body


def api_versions(version: int, client: bytes | None = b"console-producer") -> bytes:
    """Return an ApiVersions request of version 0 to 2, as the Java client sends it to brokers that know no other."""
    name = pack(">h", -1) if client is None else pack(">h", len(client)) + client
    return framed(pack(">hhi", 18, version, 0) + name)


def produce(version: int) -> bytes:
    """Return a Produce request of Kafka, of a version without a transactional id."""
    head = pack(">hhih", 0, version, 5, 7) + b"rdkafka"
    return framed(head + pack(">hiih", 1, 30_000, 1, 1) + b"t" + pack(">iii", 1, 0, 20) + bytes(20))


class ForeignTests(SynchronousTestCase):
    """The first bytes of connections."""

    def told(self, data: bytes) -> ForeignClient:
        """Return the client that the conversation recognizes; check that the chunks do not matter."""
        for size in (len(data), 1, 5):
            conversation = ServerConversation()
            for at in range(0, len(data), size):
                self.assertEqual(conversation.receive_data(data[at : at + size]), [])
            self.assertIsInstance(conversation.violation, ForeignClient)
        assert isinstance(conversation.violation, ForeignClient)
        return conversation.violation

    def test_kafka_clients_are_recognized_with_their_names(self) -> None:
        """The text names request, version and client id, and the page for users of such clients."""
        for data, words in (
            (
                API_VERSIONS_3,
                "ApiVersions version 3, client id 'rdkafka', confluent-kafka-python 2.16.1",
            ),
            (API_VERSIONS_4, "ApiVersions version 4, client id 'kafka-python-producer-1', kafka-python 3.0.12"),
            (METADATA_0, "Metadata version 0, client id 'rdkafka'"),
            *[(api_versions(version), f"ApiVersions version {version}, client id 'console-p") for version in range(3)],
            (api_versions(0, None), "ApiVersions version 0)"),
            *[(produce(version), f"Produce version {version}, client id 'rdkafka'") for version in range(3)],
        ):
            foreign = self.told(data)
            self.assertEqual(foreign.kind, "Kafka")
            self.assertIn(words, str(foreign))
            self.assertIn("docs/clients.md", str(foreign))

    def test_http_and_tls_are_recognized_with_the_remedy(self) -> None:
        """Before the request or handshake is whole: the peer waits for an answer, and sends no more."""
        for data in (b"GET /health HTTP/1.1\r\n", b"POST / HTTP/1.0\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"):
            self.assertIn("--http", str(self.told(data)))
        for minor in range(4):
            foreign = self.told(bytes([0x16, 3, minor, 2, 0, 1, 0, 1]))
            self.assertEqual(foreign.kind, "TLS")
            self.assertIn("ssl:", str(foreign))

    def test_zookeeper_clients_are_recognized_with_the_remedy(self) -> None:
        """As they come to a broker whose port was given for --zookeeper; they try again every second."""
        connect = pack(">iqiqi", 0, 0, 10_000, 0, 16) + bytes(16)
        for body in (connect, connect + b"\0"):  # before and since the field for read-only
            foreign = self.told(framed(body))
            self.assertEqual(foreign.kind, "ZooKeeper")
            self.assertIn("--zookeeper", str(foreign))

    def test_a_sound_request_is_never_taken_for_foreign(self) -> None:
        """Requests of 0.7 and of logd share numbers with Kafka's."""
        for request in REQUESTS.values():
            conversation = ServerConversation()
            received = conversation.receive_data(b"".join(encode_request(request)))
            self.assertEqual([each for each, _ in received], [request])
            self.assertIsNone(conversation.violation)

    def test_a_broken_request_is_never_taken_for_foreign(self) -> None:
        """A request that is a byte too short or too long is a client's bug, and must be reported as one."""
        for request in (
            Produce("test", 0, bytes(30)),
            Fetch("test", 3, 1 << 40, 100_000),
            MultiFetch((Fetch("ab", 0, 0, 1),)),
            MultiProduce((Produce("abc", 1, bytes(20)),)),
            Offsets("t", 0, -1, 1),
            *REQUESTS.values(),
        ):
            whole = b"".join(encode_request(request))
            for body in (whole[4:-1], whole[4:] + b"x"):
                conversation = ServerConversation()
                conversation.receive_data(framed(body))
                self.assertIsNotNone(conversation.violation, request)
                self.assertNotIsInstance(conversation.violation, ForeignClient)

    def test_a_later_version_is_never_taken_for_foreign(self) -> None:
        """FetchWait has the number of Kafka's ApiVersions; a newer logd client must get its error."""
        for type_, version in ((16, 2), (18, 2), (19, 3)):
            for rest in (pack(">iii", 500, 1, 1 << 20) + bytes(8), b"\0\1t\0\0\0\1", b""):
                conversation = ServerConversation()
                got = conversation.receive_data(framed(pack(">hhi", type_, version, 77) + rest))
                self.assertEqual(
                    ([each for each, _ in got], conversation.violation), ([Unsupported(77, type_, version)], None)
                )

    def test_a_fetch_session_is_no_client_of_kafka_to_an_earlier_release(self) -> None:
        """Version 1 of FetchWait has the number and version of an ApiVersions; a release that lacks it looks there."""
        for session in (1, 2, 65535):
            for parts in ((), (NewPart("console-producer", 0, 0, 0, 0, 1),)):
                frame = b"".join(encode_request(FetchWaitV1(session, 0, 500, 1, 1 << 20, parts)))
                self.assertIsNone(is_api_versions(frame, 4, len(frame)))

    def test_an_api_versions_is_never_taken_for_a_fetch_session(self) -> None:
        """However long its client id is: the lengths of a FetchWait, version 1, do not add up in it."""
        for length in (0, 1, 2, 12, 16, 22, 24, 28, 30, 32, 48, 255):
            self.assertEqual(self.told(api_versions(1, b"c" * length)).kind, "Kafka")

    def test_only_the_first_bytes_are_recognized(self) -> None:
        """A connection that has sent a request is a client of logd's, whose violation is reported as such."""
        first = b"".join(encode_request(Metadata(None)))
        for data in (METADATA_0, b"GET / HTTP/1.1\r\n"):
            conversation = ServerConversation()
            self.assertEqual(len(conversation.receive_data(first + data)), 1)
            self.assertNotIsInstance(conversation.violation, ForeignClient)
            self.assertIsNotNone(conversation.violation)

    def test_unprintable_names_are_not_shown(self) -> None:
        """Escape sequences in a client id could control the terminal of an operator who reads the log."""
        conversation = ServerConversation()
        conversation.receive_data(api_versions(0, b"\x1b[2J"))
        self.assertNotIn("\x1b", str(conversation.violation))
        self.assertNotIsInstance(conversation.violation, ForeignClient)
