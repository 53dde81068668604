"""Tests of logd.protocol.loops on sound sets, refused ones, and tails."""

from __future__ import annotations

import gc
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SkipTest

from logd.errors import CorruptMessage, InvalidMessage, MessageTooLarge
from logd.protocol.checksums import crc32
from logd.protocol.entry import encode_gap
from logd.protocol.message import Message
from tests.protocol.loops.implementations import LoopsTestCase, on_each_implementation, properties
from tests.protocol.strategies import message_lists

HELLO_0 = bytes.fromhex("0000000a 00 3610a686 68656c6c6f")
HELLO_1 = bytes.fromhex("0000000b 01 00 3610a686 68656c6c6f")
KEYED = bytes.fromhex(
    "00000025029c98463600000001338fec7c00000000016b0106736572766572057765623168656c6c6f",
)
TOMBSTONE = bytes.fromhex("0000001402854fd2e508000001338fec7c00000000016b00")
GAP = bytes.fromhex("000000057f512e2b93")
TIME = 1320969600000
KEYED_MESSAGE = Message(b"hello", key=b"k", timestamp=TIME, headers=[("server", b"web1")])

#: A segment written by Kafka in 2011, which is not part of the project; the test is skipped without it.
OLD_SEGMENT = Path(__file__).resolve().parents[4] / "shared" / "data" / "magic0-segment.log"


@on_each_implementation
class GoldenTests(LoopsTestCase):
    """Entries whose bytes are fixed."""

    def test_messages_get_the_smallest_magic(self) -> None:
        """Plain payloads become magic 0, which clients of 0.7 read; a key, time or header makes magic 2."""
        self.assertEqual(self.loops.encode_set([Message(b"hello")]), HELLO_0)
        self.assertEqual(self.loops.encode_set([KEYED_MESSAGE]), KEYED)
        self.assertEqual(self.loops.encode_set([Message(None, key=b"k", timestamp=TIME)]), TOMBSTONE)

    def test_payloads_alone_are_encoded_as_their_messages(self) -> None:
        """A message among them is refused with a TypeError, by which producers tell that there is one."""
        payloads = [b"a", b"", bytes(300)]
        messages = [Message(each) for each in payloads]
        self.assertEqual(self.loops.encode_payloads(payloads), self.loops.encode_set(messages))
        self.assertEqual(self.loops.encode_payload_records(payloads), self.loops.encode_records(messages))
        for loop in (self.loops.encode_payloads, self.loops.encode_payload_records):
            for mixed in (messages, [*payloads, *messages], [*messages, *payloads]):
                self.assertRaises(TypeError, loop, mixed)

    def test_each_vector_gives_its_message(self) -> None:
        """With its id and next position; a gap gives none, and is counted."""
        data = HELLO_0 + HELLO_1 + GAP + KEYED + TOMBSTONE
        decoded = self.loops.decode_set(data, 1000, topic="t", partition=4)
        tombstone = Message(None, key=b"k", timestamp=TIME)
        self.assertEqual(decoded.messages, [Message(b"hello"), Message(b"hello"), KEYED_MESSAGE, tombstone])
        self.assertEqual([message.id for message in decoded.messages], [1000, 1014, 1038, 1079])
        self.assertEqual([message.next_position for message in decoded.messages], [1014, 1029, 1079, 1103])
        self.assertEqual({(message.topic, message.partition) for message in decoded.messages}, {("t", 4)})
        self.assertEqual(decoded[1:], (1000 + len(data), len(data), 1, 9, None, -1, 0, None))

    def test_a_check_counts_entries_and_finds_the_newest_time(self) -> None:
        """Messages without a time have none to give."""
        self.assertEqual(self.loops.check_set(HELLO_0 + HELLO_1, 5)[:2], (2, -1))
        self.assertEqual(self.loops.check_set(KEYED + HELLO_1 + TOMBSTONE, 50)[:2], (3, TIME))
        self.assertEqual(self.loops.check_set(memoryview(KEYED + HELLO_0), 50)[:2], (2, TIME))

    def test_a_plain_message_takes_nine_bytes_of_overhead(self) -> None:
        """Four of length, one of magic, four of checksum, for payloads of any size."""
        for size in (0, 1, 200, 70_000):
            self.assertEqual(len(self.loops.encode_set([Message(bytes(size))])), size + 9)

    def test_a_segment_of_2011_reads_whole(self) -> None:
        """Its messages are encoded to the same bytes again."""
        if not OLD_SEGMENT.exists():
            raise SkipTest(f"the segment of 2011 is not part of the project, and not at {OLD_SEGMENT}")
        data = OLD_SEGMENT.read_bytes()
        decoded = self.loops.decode_set(data)
        self.assertEqual((len(decoded.messages), decoded.consumed, decoded.error), (100, 10_900, None))
        self.assertEqual([message.id for message in decoded.messages], list(range(0, 10_900, 109)))
        self.assertEqual(self.loops.check_set(data, 100)[:2], (100, -1))
        self.assertEqual(self.loops.encode_set(decoded.messages), data)


@on_each_implementation
class RoundTripTests(LoopsTestCase):
    """Messages that are encoded and decoded."""

    @properties
    @given(message_lists, st.integers(0, 1 << 50))
    def test_messages_come_back_as_they_were(self, messages: list[Message], position: int) -> None:
        """Each has its id where the one before it ended, from any position on."""
        data = self.loops.encode_set(messages)
        decoded = self.loops.decode_set(data, position)
        self.assertEqual(decoded.messages, messages)
        self.assertEqual(decoded[1:], (position + len(data), len(data), 0, 0, None, -1, 0, None))
        self.assertEqual([m.next_position for m in decoded.messages[:-1]], [m.id for m in decoded.messages[1:]])

    @properties
    @given(st.lists(message_lists, max_size=4), st.integers(1, 5))
    def test_decoding_in_steps_equals_decoding_at_once(self, lists: list[list[Message]], limit: int) -> None:
        """In steps of any size, over gaps between the sets."""
        data = encode_gap(9).join([self.loops.encode_set(messages) for messages in lists])
        got: list[Message] = []
        position, begin, gaps = 7, 0, 0
        while begin < len(data):
            decoded = self.loops.decode_set(data, position, begin=begin, limit=limit)
            self.assertLessEqual(len(decoded.messages), limit)
            self.assertGreater(decoded.consumed, begin)
            got += decoded.messages
            gaps += decoded.gaps
            position, begin = decoded.position, decoded.consumed
        self.assertEqual(list(map(tuple, got)), list(map(tuple, self.loops.decode_set(data, 7).messages)))
        self.assertEqual(gaps, max(len(lists) - 1, 0))

    def test_decoding_leaves_the_garbage_collector_as_it_was(self) -> None:
        """It is paused while many messages are made; an application may have turned it off itself."""
        self.addCleanup(gc.enable)
        for switch, on in ((gc.disable, False), (gc.enable, True)):
            switch()
            self.loops.decode_set(HELLO_0 * 1000)
            self.assertIs(gc.isenabled(), on)

    def test_payloads_of_other_buffers_are_bytes(self) -> None:
        """From a bytearray or a memoryview, which may change later."""
        for buffer in (bytearray(HELLO_0), memoryview(HELLO_0)):
            payload = self.loops.decode_set(buffer).messages[0].payload  # more is taken than promised
            self.assertIs(type(payload), bytes)


@on_each_implementation
class CheckTests(LoopsTestCase):
    """Sets that the broker refuses."""

    def test_each_bad_set_is_refused_with_its_reason(self) -> None:
        """Empty sets, gaps, unknown magics, short lengths, bytes left over, and wrong checksums."""
        for data, why in (
            (b"", "empty"),
            (HELLO_0 + GAP, "may not send gaps"),
            (HELLO_0[:4] + b"\x04" + HELLO_0[5:], "magic 4 is not known"),
            (HELLO_0 + bytes(8), "left over"),
            (bytes.fromhex("00000004 00 00000000"), "length 4 is below the 5"),
            (bytes.fromhex("00000005 01 00 00000000"), "length 5 is below the 6"),
            (bytes.fromhex("00000012 02 00000000") + bytes(20), "length 18 is below the 19"),
            (bytes.fromhex("fffffff6 00 00000000"), "length -10 is below"),
            (HELLO_0[:-1], "does not fit"),
            (HELLO_0[:-1] + b"!", "checksum"),
            (HELLO_1[:-1] + b"!", "checksum"),
            (KEYED[:-1] + b"!", "checksum"),
        ):
            error = self.assertRaises(InvalidMessage, self.loops.check_set, data, 1000)
            self.assertIn(why, str(error))

    def test_a_message_above_the_limit_is_refused_with_its_size(self) -> None:
        """The bytes behind the checksum count; the error names the size and the limit."""
        for data, size in ((HELLO_0, 5), (HELLO_1, 5), (KEYED, 32)):
            self.loops.check_set(HELLO_0 + data, size)
            error = self.assertRaises(MessageTooLarge, self.loops.check_set, data, size - 1)
            self.assertIn(f"{size} bytes, {size - 1} are allowed", str(error))

    def test_fields_out_of_range_are_refused(self) -> None:
        """The checksum holds, so that only the fields show it; decode_set must refuse the same bodies."""
        fixed = bytes.fromhex("00 000001338fec7c00 00000001 6b 00")
        for body in (
            b"\x01" + fixed[1:],  # an attribute that has no meaning
            b"\x08" + fixed[1:] + b"v",  # a tombstone with a value
            b"\x00" + b"\xff" * 7 + b"\xfe" + fixed[9:],  # a time of -2
            fixed[:9] + b"\xff\xff\xff\xfe" + fixed[13:],  # a key of -2 bytes
            fixed[:9] + b"\x00\x00\x00\x02" + fixed[13:],  # a key up to the end: no room for the headers
            fixed[:9] + b"\x7f\xff\xff\xff" + fixed[13:],  # a key beyond the end
            fixed[:-1] + b"\x02\x00\x00",  # fewer headers than it says
        ):
            data = entry(body)
            self.assertRaises(InvalidMessage, self.loops.check_set, data, 1000)
            self.assertIsInstance(self.loops.decode_set(data).error, CorruptMessage)
        self.loops.check_set(entry(fixed), 1000)


@on_each_implementation
class TailTests(LoopsTestCase):
    """Sets that end inside an entry."""

    def test_a_cut_entry_tells_its_whole_size(self) -> None:
        """Once its length is there: a consumer asks for as many bytes the next time."""
        for cut, needed in ((3, 0), (4, 14), (5, 14), (13, 14)):
            decoded = self.loops.decode_set(HELLO_1 + HELLO_0[:cut], 5)
            self.assertEqual((len(decoded.messages), decoded.consumed, decoded.position), (1, 15, 20))
            self.assertEqual((decoded.needed, decoded.error), (needed, None))

    def test_an_impossible_head_is_an_error_at_once(self) -> None:
        """A consumer must not wait for the rest of an entry that cannot exist."""
        for tail in ("00000004", "ffffffff", "0000000a03", "0000001202", "0000000501"):
            decoded = self.loops.decode_set(HELLO_0 + bytes.fromhex(tail))
            assert decoded.error is not None
            self.assertEqual((decoded.error.position, decoded.needed, decoded.error_end), (14, 0, -1))

    def test_nine_bytes_of_a_gap_are_enough(self) -> None:
        """The position jumps behind the gap, beyond the bytes at hand: a gap may have gigabytes."""
        gap = encode_gap(1000)
        decoded = self.loops.decode_set(HELLO_0 + gap + bytes(7), 50)
        self.assertEqual(decoded[1:], (1064, 30, 1, 1000, None, -1, 0, None))
        decoded = self.loops.decode_set(HELLO_0 + gap[:8], 50)
        self.assertEqual(decoded[1:], (64, 14, 0, 0, None, -1, 1000, None))


def entry(body: bytes) -> bytes:
    """Return a magic-2 entry of any body with a right checksum."""
    return (len(body) + 5).to_bytes(4, "big") + b"\x02" + crc32(body).to_bytes(4, "big") + body
