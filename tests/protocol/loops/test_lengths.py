"""Tests of the loops that use only lengths and heads, of entries or of messages."""

from __future__ import annotations

from struct import pack

from hypothesis import given, settings
from hypothesis import strategies as st

from logd.protocol.loops.results import JoinedFrames, MessageSummary
from logd.protocol.message import Message
from logd.protocol.requests.legacy_requests import Fetch, LegacyRequest, Produce
from logd.protocol.requests.requests import encode_request
from tests.log.entries import gap, plain, timed, wrapped
from tests.protocol.loops.implementations import LoopsTestCase, on_each_implementation, properties

LOG = [plain(b"hello"), wrapped(b"hello"), timed(b"a", 50), gap(20), timed(b"b", 40), plain(b"")]
ENDS = [sum(map(len, LOG[: number + 1])) for number in range(len(LOG))]
DATA = b"".join(LOG)
#: Type, topic and partition of a Produce for topic "t".
HEAD_BYTES = 2 + 2 + 1 + 4
NO_LIMIT = 1 << 24
SERVER = (("server", b"a"),)


@on_each_implementation
class EndTests(LoopsTestCase):
    """The ends of entries."""

    def test_every_entrys_end_is_found(self) -> None:
        """From any entry on, in bytes and in a memoryview."""
        self.assertEqual(self.loops.ends_of_set(DATA), ENDS)
        self.assertEqual(self.loops.ends_of_set(memoryview(DATA), ENDS[1]), ENDS[2:])
        self.assertEqual(self.loops.ends_of_set(b""), [])

    def test_the_end_of_a_cut_entry_is_found(self) -> None:
        """Its four bytes of length are enough, so that a reader knows how much is missing."""
        for size in range(len(DATA)):
            begun = sum(start + 4 <= size for start in [0, *ENDS[:-1]])
            self.assertEqual(self.loops.ends_of_set(DATA[:size]), ENDS[:begun])

    def test_an_impossible_length_ends_the_list(self) -> None:
        """No entry has a length of 4 or less, and a negative one would lead back."""
        for length in (4, 0, -1, -(1 << 31)):
            data = DATA + length.to_bytes(4, "big", signed=True) + bytes(50)
            self.assertEqual(self.loops.ends_of_set(data), ENDS)


@on_each_implementation
class HeadTests(LoopsTestCase):
    """The heads of entries."""

    def test_every_entrys_head_is_found(self) -> None:
        """With index, size and time; a damaged payload does not matter, since no checksum is computed."""
        starts = [0, *ENDS[:-1]]
        heads = [(at, len(entry), time) for at, entry, time in zip(starts, LOG, [-1, -1, 50, -1, 40, -1], strict=True)]
        self.assertEqual(self.loops.heads_of_set(DATA), heads)
        self.assertEqual(self.loops.heads_of_set(memoryview(DATA), ENDS[0]), heads[1:])
        damaged = DATA[: len(LOG[0]) - 1] + b"!" + DATA[len(LOG[0]) :]
        self.assertEqual(self.loops.heads_of_set(damaged), heads)

    def test_the_head_of_a_cut_entry_is_found(self) -> None:
        """If all of the head is there, which is longer with some magics."""
        for entry, head_bytes in ((LOG[0], 9), (LOG[1], 10), (LOG[2], 22), (LOG[3], 9)):
            for size in range(len(entry)):
                found = self.loops.heads_of_set(LOG[5] + entry[:size])
                self.assertEqual(len(found), 2 if size >= head_bytes else 1)

    def test_an_impossible_head_ends_the_list(self) -> None:
        """By its length, its magic, or both together."""
        for head in ("00000004 00 00000000", "00000010 63 00000000", "fffffff6 00 00000000", "00000012 02 00000000"):
            self.assertEqual(len(self.loops.heads_of_set(DATA + bytes.fromhex(head) + bytes(50))), len(LOG))


@on_each_implementation
class SliceEndTests(LoopsTestCase):
    """The ends of slices."""

    def test_a_slice_keeps_its_bounds(self) -> None:
        """It ends behind a number of entries, or behind the entry that exceeds the number of bytes."""
        data = self.loops.encode_set([Message(bytes(size)) for size in range(20)])
        self.assertEqual(self.loops.slice_end(data, 0, 1, 1000), 9)
        self.assertEqual(self.loops.slice_end(data, 0, 3, 1000), 9 + 10 + 11)
        self.assertEqual(self.loops.slice_end(data, 0, 100, 19), 9 + 10 + 11)
        self.assertEqual(self.loops.slice_end(data, 9, 100, 9), 9 + 10)
        self.assertEqual(self.loops.slice_end(data, 0, 100, 1000), len(data))

    def test_an_impossible_length_makes_a_slice_of_the_rest(self) -> None:
        """The check of that slice then refuses it, with the reason."""
        for length in (0, -1, -(1 << 31)):
            data = DATA + length.to_bytes(4, "big", signed=True) + bytes(50)
            self.assertEqual(self.loops.slice_end(data, 0, 100, 1000), len(data))


def frame(request: LegacyRequest) -> bytes:
    """Return the frame of a request."""
    return b"".join(encode_request(request))


def framed(*sets: bytes, topic: str = "t", partition: int = 0) -> bytes:
    """Return the frames of Produces with these sets."""
    return b"".join(frame(Produce(topic, partition, each)) for each in sets)


@on_each_implementation
class JoiningTests(LoopsTestCase):
    """Frames for one partition, and what ends their row."""

    def joined(self, data: bytes, begin: int = 0, frame_bytes: int = NO_LIMIT, most: int = 100) -> JoinedFrames | None:
        """Join the frames from ``begin`` on."""
        found: JoinedFrames | None = self.loops.join_frames(data, begin, HEAD_BYTES, frame_bytes=frame_bytes, most=most)
        return found

    def assert_joins(self, data: bytes, *sets: bytes, **more: int) -> None:
        """Check that exactly these sets are joined, which are the first."""
        stop = more.get("begin", 0) + len(framed(*sets))
        self.assertEqual(self.joined(data, **more), JoinedFrames(stop, b"".join(sets), list(map(len, sets))))

    def test_sets_for_one_partition_become_one(self) -> None:
        """Of one message or of several; the row may begin anywhere."""
        sets = [plain(b"a"), plain(b"bb") + plain(b""), plain(bytes(300))]
        self.assert_joins(framed(*sets), *sets)
        self.assert_joins(b"before" + framed(*sets), *sets, begin=6)

    def test_one_frame_is_left_alone(self) -> None:
        """So is none."""
        for data in (b"", framed(plain(b"a")), framed(plain(b"a"), plain(b"b"))[:-1]):
            self.assertIsNone(self.joined(data))
        for begin in (1, 1000, 1 << 40, 1 << 70):
            self.assertIsNone(self.joined(framed(plain(b"a")), begin=begin))
        self.assertIsNone(self.joined(framed(plain(b"a"), plain(b"b")), most=1))

    def test_any_other_frame_ends_the_row(self) -> None:
        """Of another topic, partition or type, or too large."""
        sets = [plain(b"a"), plain(b"b")]
        row = framed(*sets)
        for other in (
            framed(plain(b"c"), topic="u"),
            framed(plain(b"c"), topic="tt"),
            framed(plain(b"c"), partition=1),
            b"".join([frame(Fetch("t", 0, 0, 5)), framed(plain(b"c"))]),
            framed(plain(bytes(100))),
            pack(">i", -1) + framed(plain(b"c"))[4:],
            pack(">i", 0) + framed(plain(b"c"))[4:],
        ):
            self.assert_joins(row + other + row, *sets, frame_bytes=80)
        self.assert_joins(row + row, *sets, plain(b"a"), most=3)

    def test_lengths_that_do_not_add_up_end_the_row(self) -> None:
        """Those of the request, and those of the entries: half an entry is none, though the next set has the rest."""
        sets = [plain(b"a"), plain(b"b")]
        row = framed(*sets)
        entry = plain(b"one two")
        wrong = bytearray(framed(plain(b"c")))
        wrong[4 + HEAD_BYTES + 3] += 1
        for bad in (
            bytes(wrong),
            framed(b""),
            framed(entry[:9], entry[9:]),
            framed(entry[:-1]),
            framed(entry + b"12345678"),
            framed(pack(">i", 4) + bytes(5) + entry),
            framed(pack(">i", -9) + bytes(9)),
            framed(pack(">i", (1 << 31) - 1) + bytes(9)),
        ):
            self.assert_joins(row + bad + row, *sets)

    @settings(properties, max_examples=100)
    @given(st.lists(st.lists(st.binary(max_size=20), min_size=1, max_size=3), min_size=2, max_size=6), st.data())
    def test_a_cut_row_has_its_whole_frames(self, payloads: list[list[bytes]], data: st.DataObject) -> None:
        """Wherever the cut is."""
        sets = [b"".join(map(plain, each)) for each in payloads]
        row = framed(*sets)
        cut = data.draw(st.integers(0, len(row)))
        whole = [each for number, each in enumerate(sets) if len(framed(*sets[: number + 1])) <= cut]
        if len(whole) < 2:
            self.assertIsNone(self.joined(row[:cut]))
        else:
            self.assert_joins(row[:cut], *whole)


@on_each_implementation
class SummaryTests(LoopsTestCase):
    """``summarize_messages``."""

    def test_headers_times_and_bytes_are_found(self) -> None:
        """In lists and in tuples."""
        messages = [
            Message(b"abc", timestamp=5, headers=SERVER),
            Message(b"de", key=b"k", timestamp=3, headers=SERVER),
        ]
        expected = MessageSummary(SERVER, 3, 5, 6)
        for each in (messages, tuple(messages)):
            found = self.loops.summarize_messages(each)
            self.assertEqual(found, expected)
            self.assertIsInstance(found, MessageSummary)

    def test_headers_that_differ_are_none(self) -> None:
        """Equal ones are the same, whether they are one object or not; the first may be the odd one."""
        one, other = Message(b"", headers=SERVER), Message(b"", headers=(("server", b"b"),))
        copy = Message(b"", headers=(("server", bytes([97])),))
        self.assertEqual(self.loops.summarize_messages([one, copy]).headers, SERVER)
        self.assertIsNone(self.loops.summarize_messages([one, one, other]).headers)
        self.assertIsNone(self.loops.summarize_messages([other, one, one]).headers)
        self.assertEqual(self.loops.summarize_messages([Message(b""), Message(b"")]).headers, ())

    def test_a_message_without_a_time_leaves_no_least_time(self) -> None:
        """Wherever it stands; the greatest is that of the others."""
        timed, untimed = Message(b"", timestamp=7), Message(b"")
        for messages in ([timed, untimed], [untimed, timed], [timed, untimed, timed]):
            self.assertEqual(self.loops.summarize_messages(messages)[1:3], (-1, 7))
        self.assertEqual(self.loops.summarize_messages([untimed])[1:3], (-1, -1))

    def test_a_message_without_a_payload_has_the_bytes_of_its_key(self) -> None:
        """A tombstone."""
        self.assertEqual(self.loops.summarize_messages([Message(None, key=b"key")]).bytes, 3)

    def test_no_messages_have_nothing_in_common(self) -> None:
        """Of any kind."""
        self.assertEqual(self.loops.summarize_messages([]), MessageSummary(None, -1, -1, 0))
        self.assertEqual(self.loops.summarize_messages(()), MessageSummary(None, -1, -1, 0))


@on_each_implementation
class PayloadSizesTests(LoopsTestCase):
    """``payload_sizes``."""

    def test_payloads_are_measured(self) -> None:
        """In lists and in tuples; none at all have no bytes."""
        messages = [Message(b"abc"), Message(b""), Message(b"abcd"), Message(b"ab")]
        for each in (messages, tuple(messages)):
            self.assertEqual(self.loops.payload_sizes(each), (9, 4))
        self.assertEqual(self.loops.payload_sizes([]), (0, 0))

    def test_what_is_more_or_less_than_a_payload_is_not_measured(self) -> None:
        """Wherever it stands."""
        plain = Message(b"a")
        for other in (
            Message(b"a", key=b""),
            Message(b"a", timestamp=0),
            Message(b"a", headers=SERVER),
            Message(None, key=b"k"),
        ):
            for messages in ([other], [other, plain], [plain, other]):
                self.assertIsNone(self.loops.payload_sizes(messages))
