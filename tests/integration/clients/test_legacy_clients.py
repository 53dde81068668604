"""Clients of Kafka 0.7, byte for byte, against a real broker: nothing here uses logd's encoders."""

from __future__ import annotations

import random
from struct import pack, unpack
from zlib import crc32

from tests.integration.peers import BrokerTestCase, Peer

HELLO = bytes.fromhex("0000000b 01 00 3610a686 68656c6c6f")
EMPTY = bytes.fromhex("0000")


def entry(payload: bytes) -> bytes:
    """Return a magic-0 entry."""
    return pack(">iBI", 5 + len(payload), 0, crc32(payload)) + payload


def text(value: str) -> bytes:
    """Return a string field: its length in two bytes, then UTF-8."""
    encoded = value.encode()
    return pack(">h", len(encoded)) + encoded


def request(number: int, body: bytes) -> bytes:
    """Return the frame of a request."""
    return pack(">ih", 2 + len(body), number) + body


def produce_body(topic: str, partition: int, message_set: bytes) -> bytes:
    """Return the body of a Produce."""
    return text(topic) + pack(">ii", partition, len(message_set)) + message_set


def produce(topic: str, partition: int, message_set: bytes) -> bytes:
    """Return a Produce."""
    return request(0, produce_body(topic, partition, message_set))


def fetch_body(topic: str, partition: int, offset: int, max_bytes: int) -> bytes:
    """Return the body of a Fetch."""
    return text(topic) + pack(">iqi", partition, offset, max_bytes)


def fetch(topic: str, partition: int, offset: int, max_bytes: int) -> bytes:
    """Return a Fetch."""
    return request(1, fetch_body(topic, partition, offset, max_bytes))


def multi_fetch(*bodies: bytes) -> bytes:
    """Return a MultiFetch."""
    return request(2, pack(">h", len(bodies)) + b"".join(bodies))


def offsets(topic: str, partition: int, time: int, count: int) -> bytes:
    """Return an Offsets request."""
    return request(4, text(topic) + pack(">iqi", partition, time, count))


class LegacyTestCase(BrokerTestCase):
    """A broker, and the reading loop of a 0.7 consumer."""

    def read(self, peer: Peer, topic: str, count: int, partition: int = 0) -> bytes:
        """Fetch as a consumer does until ``count`` bytes have come, and return all."""
        got = bytearray()

        def enough() -> bool:
            peer.send(fetch(topic, partition, len(got), 1 << 20))
            answer = peer.frame()
            self.assertEqual(answer[:2], b"\0\0")
            got.extend(answer[2:])
            return len(got) >= count

        self.until(enough, f"{count} bytes in {topic}-{partition}")
        return bytes(got)


class GoldenTests(LegacyTestCase):
    """The bytes that clients of 2011 sent and received, at a broker with segments of 100 bytes."""

    options = ("--set", "segment.bytes=100")

    def test_golden_requests_get_golden_answers(self) -> None:
        """They are written out in hex, so that no encoder of logd can be wrong on both sides."""
        peer = self.connect()
        # A topic that does not exist is empty, and Offsets has 0 for it; then the produce makes it.
        peer.send(bytes.fromhex("00000018 0004 0004 74657374 00000000 ffffffffffffffff 00000001"))
        self.assertEqual(peer.frame().hex(), "0000000000010000000000000000")
        peer.send(bytes.fromhex("00000019 0001 0005 746f706963 00000001 000000000000000a 00000064"))
        self.assertEqual(peer.receive(6).hex(), "000000020000")
        peer.send(bytes.fromhex("0000001f 0000 0004 74657374 00000000 0000000f") + HELLO)
        self.assertEqual(self.read(peer, "test", len(HELLO)), HELLO)
        peer.send(fetch("test", 0, 0, 15))
        self.assertEqual(peer.receive(21), bytes.fromhex("00000011 0000") + HELLO)
        peer.send(fetch("test", 0, 15, 100) + fetch("test", 0, 16, 100))
        self.assertEqual(peer.receive(12).hex(), "000000020000000000020001")
        peer.send(multi_fetch(fetch_body("test", 0, 0, 15), fetch_body("test", 0, 99, 15)))
        expected = bytes.fromhex("0000001d 0000 00000011 0000") + HELLO + bytes.fromhex("00000002 0001")
        self.assertEqual(peer.receive(len(expected)), expected)
        peer.send(bytes.fromhex("0000001b 0002 0001 0005 746f706963 00000001 000000000000000a 00000064"))
        self.assertEqual(peer.receive(12).hex(), "000000080000000000020000")
        peer.send(bytes.fromhex("00000021 0003 0001 0004 74657374 00000000 0000000f") + HELLO)
        self.assertEqual(self.read(peer, "test", 30), HELLO * 2)
        self.assertEqual(self.content("test"), HELLO * 2)

    def test_offsets_lists_segment_starts_from_the_end(self) -> None:
        """Twenty appends of twelve bytes: latest, earliest, limited and timed; a fetch ends with its segment."""
        peer = self.connect()
        peer.send(produce("t", 0, entry(b"123")) * 20)
        self.read(peer, "t", 240)
        peer.send(offsets("t", 0, -1, 10) + offsets("t", 0, -2, 10) + offsets("t", 0, -1, 2) + offsets("t", 0, 5, 10))
        expected = "00000026 0000 00000004 00000000000000f0 00000000000000d8 000000000000006c 0000000000000000"
        self.assertEqual(peer.receive(42), bytes.fromhex(expected))
        self.assertEqual(peer.frame().hex(), "0000000000010000000000000000")
        self.assertEqual(peer.frame().hex(), "00000000000200000000000000f000000000000000d8")
        self.assertEqual(peer.frame().hex(), "000000000000")
        # A fetch stops where a segment does.
        peer.send(fetch("t", 0, 0, 1000) + fetch("t", 0, 108, 1000))
        self.assertEqual((len(peer.frame()), len(peer.frame())), (110, 110))

    def test_a_plain_message_takes_nine_bytes_of_overhead(self) -> None:
        """This holds on the wire and on the disk, as in the paper's comparison of message sizes (section 5)."""
        peer = self.connect()
        peer.send(produce("t", 0, b"".join(entry(bytes(200)) for _ in range(50))))
        self.assertEqual(len(self.read(peer, "t", 50 * 209)), 50 * 209)
        self.assertEqual(len(self.content("t")), 50 * 209)


class BehaviourTests(LegacyTestCase):
    """Errors, refusals and order, as 0.7 had them."""

    def test_each_wrong_fetch_gets_its_error(self) -> None:
        """The requests are pipelined, so that an error must not cost the answers behind it."""
        peer = self.connect()
        peer.send(produce("t", 0, HELLO))
        self.read(peer, "t", 15)
        asked = [
            (fetch("t", 0, 15, 100), 0),
            (fetch("t", 0, 16, 100), 1),
            (fetch("t", 0, -1, 100), 1),
            (fetch("t", 0, 0, -1), 4),
            (fetch("t", 1, 0, 100), 3),
            (fetch("t", -1, 0, 100), 3),
            (fetch("unknown", 0, 5, 100), 0),
            (offsets("t", 1, -1, 1), 3),
            (offsets("t", 0, -1, -1), 3),
        ]
        peer.send(b"".join(data for data, _ in asked))
        self.assertEqual([peer.frame() for _ in asked], [pack(">h", error) for _, error in asked])
        peer.send(fetch("t", 0, 0, 3) + fetch("t", 0, 3, 0))
        self.assertEqual((peer.frame(), peer.frame()), (EMPTY + HELLO[:3], EMPTY))

    def test_bad_sets_are_refused_whole(self) -> None:
        """A 0.7 Produce has no answer: the refusal is logged, and the connection goes on with the next set."""
        peer = self.connect()
        bad = [
            HELLO[:-1] + b"O",
            HELLO[:4] + b"\x05" + HELLO[5:],
            HELLO + bytes.fromhex("00000005 7f 512e2b93"),
            entry(bytes(1_000_001)),
            HELLO + HELLO[:-1],
            b"",
        ]
        peer.send(produce("t", 0, HELLO) + b"".join(produce("t", 0, message_set) for message_set in bad))
        peer.send(produce("t", 9, HELLO) + produce("bad name", 0, HELLO) + produce("t", 0, entry(b"last")))
        self.assertEqual(self.read(peer, "t", 28), HELLO + entry(b"last"))
        self.assertEqual(self.content("t"), HELLO + entry(b"last"))
        self.until_logged("(8 so far)")
        self.assertIn("refused a message set of 127.0.0.1", self.broker_log())

    def test_produces_wait_for_their_new_topic_in_order(self) -> None:
        """200 produces to five new topics arrive at once; those behind a topic's first must not overtake it."""
        peer = self.connect()
        entries = [entry(b"%d" % number) for number in range(200)]
        peer.send(b"".join(produce(f"t{number % 5}", -1, each) for number, each in enumerate(entries)))
        for number in range(5):
            expected = b"".join(entries[number::5])
            self.assertEqual(self.read(peer, f"t{number}", len(expected)), expected)

    def test_sets_of_a_producer_that_left_are_kept(self) -> None:
        """A 0.7 producer closes without an answer, often before its topic is made."""
        entries = [entry(b"%d" % number) for number in range(400)]
        for number in range(10):
            with self.connect() as peer:
                peer.send(b"".join(produce(f"t{number}", 0, each) for each in entries))
        peer = self.connect()
        for number in range(10):
            self.assertEqual(self.read(peer, f"t{number}", len(b"".join(entries))), b"".join(entries))

    def test_a_multi_produce_creates_its_topics(self) -> None:
        """Nine sets for three new topics come in one request; each topic has its own, in order."""
        peer = self.connect()
        bodies = [produce_body(f"t{number % 3}", 0, entry(b"%d" % number)) for number in range(9)]
        peer.send(request(3, pack(">h", 9) + b"".join(bodies)))
        for number in range(3):
            expected = b"".join(entry(b"%d" % each) for each in range(number, 9, 3))
            self.assertEqual(self.read(peer, f"t{number}", len(expected)), expected)

    def test_pipelined_fetches_are_answered_in_order(self) -> None:
        """3000 fetches with answers of 0 to 100,000 bytes; large answers must not be overtaken by small ones."""
        peer = self.connect()
        seed = random.Random(7)
        log = b"".join(entry(seed.randbytes(seed.randrange(2000))) for _ in range(500))
        at, sets = 0, []
        while at < len(log):
            stop = at
            while stop < len(log) and stop - at < 20_000:
                stop += 4 + unpack(">i", log[stop : stop + 4])[0]
            sets.append(produce("t", 0, log[at:stop]))
            at = stop
        peer.send(b"".join(sets))
        self.assertEqual(self.read(peer, "t", len(log)), log)
        places = [(seed.randrange(len(log)), seed.choice((0, 1, 500, 5000, 17_000, 100_000))) for _ in range(3000)]
        peer.send(b"".join(fetch("t", 0, offset, count) for offset, count in places))
        for offset, count in places:
            self.assertEqual(peer.frame(), EMPTY + log[offset : offset + count])

    def test_malformed_frames_close_only_their_connection(self) -> None:
        """The request before is answered, the reason is logged, and another client is served as before."""
        other = self.connect()
        malformed = [
            ("00000000", "a frame of 0 bytes"),
            ("80000000", "a frame of -2147483648 bytes"),
            ("01000001", "a frame of 16777217 bytes"),
            ("00000002 0007", "request type 7"),
            ("00000006 0001 0005 6161", "a field of 5 bytes, 2 are left"),
            ("00000010 0000 0001 61 00000000 00000005 616161", "a field of 5 bytes, 3 are left"),
            ("00000010 0000 0001 61 00000000 00000002 616161", "1 byte left over"),
        ]
        for data, reason in malformed:
            peer = self.connect()
            peer.send(fetch("none", 0, 0, 10) + bytes.fromhex(data))
            self.assertEqual(peer.frame(), EMPTY)
            self.assertTrue(peer.is_closed())
            self.until_logged(reason)
        other.send(fetch("none", 0, 0, 10))
        self.assertEqual(other.frame(), EMPTY)
