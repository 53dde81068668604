"""Tests of logd.protocol.loops on sets that are sound."""

from __future__ import annotations

import gc
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SkipTest, SynchronousTestCase

from logd.errors import CorruptMessage, InvalidMessage, MessageTooLarge, WrapperTooLarge
from logd.protocol import loops
from logd.protocol.checksums import crc32
from logd.protocol.entry import encode_gap
from logd.protocol.loops import openwrapper
from logd.protocol.message import Message
from logd.protocol.wrapper import encode_wrapper
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

#: A segment written by the system of 2011, where the folder beside the project has it.
OLD_SEGMENT = Path(__file__).resolve().parents[3] / "shared" / "data" / "magic0-segment.log"


class GoldenTests(SynchronousTestCase):
    """The bytes that are fixed."""

    def test_encode(self) -> None:
        """Plain payloads become magic 0; a key, a time or a header makes magic 2."""
        self.assertEqual(loops.encode_set([Message(b"hello")]), HELLO_0)
        self.assertEqual(loops.encode_set([KEYED_MESSAGE]), KEYED)
        self.assertEqual(loops.encode_set([Message(None, key=b"k", timestamp=TIME)]), TOMBSTONE)

    def test_decode(self) -> None:
        """Each vector gives its message, and a gap none."""
        data = HELLO_0 + HELLO_1 + GAP + KEYED + TOMBSTONE
        decoded = loops.decode_set(data, 1000, topic="t", partition=4)
        tombstone = Message(None, key=b"k", timestamp=TIME)
        self.assertEqual(decoded.messages, [Message(b"hello"), Message(b"hello"), KEYED_MESSAGE, tombstone])
        self.assertEqual([message.id for message in decoded.messages], [1000, 1014, 1038, 1079])
        self.assertEqual([message.next_position for message in decoded.messages], [1014, 1029, 1079, 1103])
        self.assertEqual({(message.topic, message.partition) for message in decoded.messages}, {("t", 4)})
        self.assertEqual(decoded[1:], (1000 + len(data), len(data), 1, 9, None, -1, 0, None))

    def test_check(self) -> None:
        """A set is counted, and the newest time in it found."""
        self.assertEqual(loops.check_set(HELLO_0 + HELLO_1, 5), (2, -1))
        self.assertEqual(loops.check_set(KEYED + HELLO_1 + TOMBSTONE, 50), (3, TIME))
        self.assertEqual(loops.check_set(memoryview(KEYED + HELLO_0), 50), (2, TIME))

    def test_overhead_is_nine_bytes(self) -> None:
        """A magic-0 message takes nine bytes more than its payload: four of length, one of magic, four of checksum."""
        for size in (0, 1, 200, 70_000):
            self.assertEqual(len(loops.encode_set([Message(bytes(size))])), size + 9)

    def test_segment_of_2011(self) -> None:
        """A segment file that Kafka wrote in 2011 reads whole."""
        if not OLD_SEGMENT.exists():
            raise SkipTest(f"the segment of 2011 is not part of the project, and not at {OLD_SEGMENT}")
        data = OLD_SEGMENT.read_bytes()
        decoded = loops.decode_set(data)
        self.assertEqual((len(decoded.messages), decoded.consumed, decoded.error), (100, 10_900, None))
        self.assertEqual([message.id for message in decoded.messages], list(range(0, 10_900, 109)))
        self.assertEqual(loops.check_set(data, 100), (100, -1))
        self.assertEqual(loops.encode_set(decoded.messages), data)


class RoundTripTests(SynchronousTestCase):
    """What is encoded is decoded."""

    @settings(deadline=None)
    @given(message_lists, st.integers(0, 1 << 50))
    def test_round_trip(self, messages: list[Message], position: int) -> None:
        """Messages come back equal, each where the one before it ended."""
        data = loops.encode_set(messages)
        decoded = loops.decode_set(data, position)
        self.assertEqual(decoded.messages, messages)
        self.assertEqual(decoded[1:], (position + len(data), len(data), 0, 0, None, -1, 0, None))
        self.assertEqual([m.next_position for m in decoded.messages[:-1]], [m.id for m in decoded.messages[1:]])

    @settings(deadline=None)
    @given(st.lists(message_lists, max_size=4), st.integers(1, 5))
    def test_resumed(self, lists: list[list[Message]], limit: int) -> None:
        """Decoding a few entries at a time gives what decoding at once gives."""
        data = encode_gap(9).join([loops.encode_set(messages) for messages in lists])
        got: list[Message] = []
        position, begin, gaps = 7, 0, 0
        while begin < len(data):
            decoded = loops.decode_set(data, position, begin=begin, limit=limit)
            self.assertLessEqual(len(decoded.messages), limit)
            self.assertGreater(decoded.consumed, begin)
            got += decoded.messages
            gaps += decoded.gaps
            position, begin = decoded.position, decoded.consumed
        self.assertEqual(list(map(tuple, got)), list(map(tuple, loops.decode_set(data, 7).messages)))
        self.assertEqual(gaps, max(len(lists) - 1, 0))

    def test_collector_is_left_as_it_was(self) -> None:
        """Decoding much pauses the garbage collector, and gives it back on or off as it was."""
        self.addCleanup(gc.enable)
        for switch, on in ((gc.disable, False), (gc.enable, True)):
            switch()
            loops.decode_set(HELLO_0 * 1000)
            self.assertIs(gc.isenabled(), on)

    def test_other_buffers(self) -> None:
        """A bytearray or memoryview is decoded to bytes all the same."""
        for buffer in (bytearray(HELLO_0), memoryview(HELLO_0)):
            payload = loops.decode_set(buffer).messages[0].payload  # type: ignore[arg-type]  # more is taken than promised
            self.assertIs(type(payload), bytes)


class CheckTests(SynchronousTestCase):
    """What a producer may not send."""

    def test_refused(self) -> None:
        """Nothing, gaps, unknown magic, short lengths and bytes left over each say what they are."""
        for data, why in (
            (b"", "empty"),
            (HELLO_0 + GAP, "may not send gaps"),
            (HELLO_0[:4] + b"\x03" + HELLO_0[5:], "magic 3 is not known"),
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
            error = self.assertRaises(InvalidMessage, loops.check_set, data, 1000)
            self.assertIn(why, str(error))

    def test_message_limit(self) -> None:
        """The limit counts what is behind the checksum, and names both sizes."""
        for data, size in ((HELLO_0, 5), (HELLO_1, 5), (KEYED, 32)):
            loops.check_set(HELLO_0 + data, size)
            error = self.assertRaises(MessageTooLarge, loops.check_set, data, size - 1)
            self.assertIn(f"{size} bytes, {size - 1} are allowed", str(error))

    def test_fields_of_magic_2(self) -> None:
        """Fields out of range are refused although the checksum holds, and decoding refuses the same."""
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
            self.assertRaises(InvalidMessage, loops.check_set, data, 1000)
            self.assertIsInstance(loops.decode_set(data).error, CorruptMessage)
        loops.check_set(entry(fixed), 1000)


class WrapperTests(SynchronousTestCase):
    """What is inside a wrapper is a consumer's to judge."""

    def assert_wrong(self, inner: bytes, why: str) -> None:
        """Check that a wrapper of ``inner`` is wrong as a whole, after the message before it."""
        data = HELLO_0 + encode_wrapper("gzip", inner) + HELLO_0
        decoded = loops.decode_set(data, 100)
        self.assertEqual(decoded.messages, [Message(b"hello")])
        assert decoded.error is not None
        self.assertIn(why, str(decoded.error))
        self.assertEqual((decoded.error.position, decoded.position), (114, 114))
        self.assertEqual((decoded.consumed, decoded.error_end), (14, 100 + len(data) - 14))

    def test_wrong_inside(self) -> None:
        """A wrapper in a wrapper, a gap, a bad checksum and a set cut short each make the whole wrapper wrong."""
        self.assert_wrong(HELLO_0 + encode_wrapper("zstd", HELLO_0), "inside a wrapper")
        self.assert_wrong(HELLO_0 + GAP, "magic 127")
        self.assert_wrong(HELLO_0 + HELLO_0[:-1] + b"!", "checksum")
        self.assert_wrong(HELLO_0 + HELLO_0[:-1], "cut short")

    def test_nothing_inside(self) -> None:
        """A wrapper of no messages is passed over."""
        data = encode_wrapper("gzip", b"") + HELLO_0
        decoded = loops.decode_set(data)
        self.assertEqual((decoded.messages, decoded.consumed), ([Message(b"hello")], len(data)))

    def test_many_wrappers(self) -> None:
        """Wrappers that are large together end the call once the bytes exceed its limit."""
        wrapper = encode_wrapper("gzip", HELLO_0 * 100)
        decoded = loops.decode_set(wrapper * 3, limit_bytes=2000)
        self.assertLess(len(decoded.messages), 200)
        whole = loops.decode_set(wrapper * 3).messages
        self.assertEqual(all_slices(wrapper * 3, limit_bytes=2000)[0], [tuple(each) for each in whole])


class BoundTests(SynchronousTestCase):
    """What a wrapper may become, and how much of it at a time."""

    def test_bytes(self) -> None:
        """More bytes than are allowed is an error that names the setting and the place to go on at; not damage."""
        wrapper = encode_wrapper("gzip", HELLO_0 * 100)
        decoded = loops.decode_set(HELLO_0 + wrapper, 50, max_decompressed=1399)
        self.assertEqual((len(decoded.messages), decoded.position, decoded.consumed), (1, 64, 14))
        error = decoded.error
        assert isinstance(error, WrapperTooLarge)
        self.assertEqual((error.setting, error.position, error.end), ("max_decompressed", 64, 64 + len(wrapper)))
        self.assertIn("max_decompressed = 1399", str(error))
        self.assertIsNone(loops.decode_set(wrapper, max_decompressed=1400).error)

    def test_messages(self) -> None:
        """More messages than are allowed is such an error too, and no message is made before."""
        wrapper = encode_wrapper("gzip", HELLO_0 * 100)
        self.patch(loops.OpenWrapper, "_messages", lambda *_: self.fail("messages are made"))
        decoded = loops.decode_set(wrapper, 50, max_decompressed_messages=99)
        error = decoded.error
        assert isinstance(error, WrapperTooLarge)
        self.assertEqual(
            (error.setting, error.position, error.end), ("max_decompressed_messages", 50, decoded.error_end)
        )
        self.assertEqual(decoded.messages, [])

    def test_just_as_many(self) -> None:
        """A wrapper of as many messages as are allowed is read."""
        decoded = loops.decode_set(encode_wrapper("gzip", HELLO_0 * 100), max_decompressed_messages=100)
        self.assertEqual((len(decoded.messages), decoded.error, decoded.wrapper), (100, None, None))

    def test_slices(self) -> None:
        """However small the slices, of messages or bytes, the messages and their places are those of the whole."""
        messages = [
            Message(b"x" * (n % 7), key=b"k" if n % 3 else None, headers=[("h", b"v")] * (n % 2)) for n in range(40)
        ]
        wrappers = encode_wrapper("zstd", loops.encode_set(messages)), encode_wrapper("gzip", HELLO_0 * 300)
        data = HELLO_0 + wrappers[0] + HELLO_1 + wrappers[1]
        whole = [tuple(each) for each in loops.decode_set(data, 90, topic="t", partition=2).messages]
        self.assertEqual(len(whole), 342)
        for limits in (
            {"limit": 1},
            {"limit": 7},
            {"limit_bytes": 1},
            {"limit_bytes": 100},
            {"limit": 50, "limit_bytes": 99},
        ):
            got, most = all_slices(data, 90, **limits)
            self.assertEqual(got, whole, limits)
            self.assertLessEqual(most, limits.get("limit", 8))

    def test_work_is_bounded(self) -> None:
        """No call checks or makes more than a few times its limit, whatever the wrapper is."""
        counted: list[int] = []

        def counting(data: bytes) -> int:
            counted.append(1)
            return crc32(data)

        self.patch(openwrapper, "crc32", counting)
        data = encode_wrapper("gzip", HELLO_0 * 10_000)
        self.assertLess(len(data), 10_000)  # more messages than bytes
        wrapper = None
        seen = calls = 0
        at = 0
        while at < len(data):
            counted.clear()
            decoded = loops.decode_set(data, begin=at, limit=100, wrapper=wrapper)
            self.assertLessEqual(len(counted), 400)
            wrapper, at = decoded.wrapper, decoded.consumed
            seen += len(decoded.messages)
            calls += 1
        self.assertEqual((seen, decoded.position), (10_000, len(data)))
        self.assertLess(calls, 130)

    def test_start_inside_in_slices(self) -> None:
        """What lies before the position to start at is passed over in slices too, and makes no message."""
        data = HELLO_0 + encode_wrapper("zstd", loops.encode_set([Message(b"%09d" % (n * n)) for n in range(200)]))
        whole = loops.decode_set(data).messages
        for index in (0, 1, 2, 100, 200):
            got, _ = all_slices(data, start_at=whole[index].id, limit=3)
            self.assertEqual(got, [tuple(each) for each in whole[index:]])

    def test_damage_at_the_end(self) -> None:
        """A wrapper that is damaged behind many sound messages hands none of them over, in slices neither."""
        data = encode_wrapper("gzip", HELLO_0 * 500 + HELLO_0[:-1] + b"!")
        wrapper = None
        for _ in range(100):
            decoded = loops.decode_set(data, limit=20, wrapper=wrapper)
            wrapper = decoded.wrapper
            self.assertEqual((decoded.messages, decoded.consumed, decoded.position), ([], 0, 0))
            if decoded.error is not None:
                break
        self.assertIsInstance(decoded.error, CorruptMessage)
        self.assertEqual(decoded.error_end, len(data))


def all_slices(data: bytes, position: int = 0, **limits: int) -> tuple[list[tuple[object, ...]], int]:
    """Return all messages of ``data``, decoded in slices, and the most that came at a time."""
    found: list[tuple[object, ...]] = []
    most = at = 0
    wrapper = None
    topic, partition = ("t", 2) if position else (None, -1)
    while at < len(data):
        decoded = loops.decode_set(
            data, position + at, begin=at, topic=topic, partition=partition, wrapper=wrapper, **limits
        )
        if decoded.error is not None:
            raise decoded.error
        found += [tuple(each) for each in decoded.messages]
        most = max(most, len(decoded.messages))
        at, wrapper = decoded.consumed, decoded.wrapper
    return found, most


class TailTests(SynchronousTestCase):
    """Where the bytes end inside an entry."""

    def test_needed(self) -> None:
        """The whole size of the entry is told as soon as its length is there."""
        for cut, needed in ((3, 0), (4, 14), (5, 14), (13, 14)):
            decoded = loops.decode_set(HELLO_1 + HELLO_0[:cut], 5)
            self.assertEqual((len(decoded.messages), decoded.consumed, decoded.position), (1, 15, 20))
            self.assertEqual((decoded.needed, decoded.error), (needed, None))

    def test_nonsense_is_an_error_at_once(self) -> None:
        """A length or magic of no entry is not waited for."""
        for tail in ("00000004", "ffffffff", "0000000a03", "0000001202", "0000000501"):
            decoded = loops.decode_set(HELLO_0 + bytes.fromhex(tail))
            assert decoded.error is not None
            self.assertEqual((decoded.error.position, decoded.needed, decoded.error_end), (14, 0, -1))

    def test_gap_beyond_the_end(self) -> None:
        """Nine bytes of a gap are enough: the position jumps behind it, beyond the bytes that are here."""
        gap = encode_gap(1000)
        decoded = loops.decode_set(HELLO_0 + gap + bytes(7), 50)
        self.assertEqual(decoded[1:], (1064, 30, 1, 1000, None, -1, 0, None))
        decoded = loops.decode_set(HELLO_0 + gap[:8], 50)
        self.assertEqual(decoded[1:], (64, 14, 0, 0, None, -1, 1000, None))


def entry(body: bytes) -> bytes:
    """Return a magic-2 entry of any body under a checksum that holds."""
    return (len(body) + 5).to_bytes(4, "big") + b"\x02" + crc32(body).to_bytes(4, "big") + body
