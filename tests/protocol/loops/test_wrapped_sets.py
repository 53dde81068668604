"""Tests of decode_set on wrappers: sound, damaged, larger than allowed, and decoded in slices."""

from __future__ import annotations

from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import CorruptMessage, WrapperTooLarge
from logd.protocol.batch import encode_batch
from logd.protocol.checksums import crc32
from logd.protocol.loops import openwrapper
from logd.protocol.loops import python as loops
from logd.protocol.loops.openwrapper import OpenWrapper
from logd.protocol.message import Message
from logd.protocol.wrapper import encode_wrapper
from tests.protocol.loops.implementations import LoopsTestCase, on_each_implementation
from tests.protocol.loops.test_loops import GAP, HELLO_0, HELLO_1


def all_slices(twin: Any, data: bytes, position: int = 0, **limits: int) -> tuple[list[tuple[object, ...]], int]:
    """Return all messages of ``data``, decoded in slices, and the largest number of messages in a slice."""
    found: list[tuple[object, ...]] = []
    most = at = 0
    wrapper = None
    topic, partition = ("t", 2) if position else (None, -1)
    while at < len(data):
        decoded = twin.decode_set(
            data, position + at, begin=at, topic=topic, partition=partition, opened=wrapper, **limits
        )
        if decoded.error is not None:
            raise decoded.error
        found += [tuple(each) for each in decoded.messages]
        most = max(most, len(decoded.messages))
        at, wrapper = decoded.consumed, decoded.opened
    return found, most


@on_each_implementation
class WrapperTests(LoopsTestCase):
    """The inside of wrappers, which only consumers check."""

    def assert_wrong(self, inner: bytes, why: str) -> None:
        """Check that all of a wrapper of ``inner`` is refused, behind the message before it."""
        data = HELLO_0 + encode_wrapper("gzip", inner) + HELLO_0
        decoded = self.loops.decode_set(data, 100)
        self.assertEqual(decoded.messages, [Message(b"hello")])
        assert decoded.error is not None
        self.assertIn(why, str(decoded.error))
        self.assertEqual((decoded.error.position, decoded.position), (114, 114))
        self.assertEqual((decoded.consumed, decoded.error_end), (14, 100 + len(data) - 14))

    def test_a_wrapper_with_a_bad_entry_is_refused_whole(self) -> None:
        """Positions count back from its end, so that a part of its messages would have wrong ones."""
        self.assert_wrong(HELLO_0 + encode_wrapper("zstd", HELLO_0), "a wrapper inside a wrapper")
        self.assert_wrong(HELLO_0 + encode_batch([Message(b"hello")]), "a batch inside a wrapper")
        self.assert_wrong(HELLO_0 + GAP, "magic 127")
        self.assert_wrong(HELLO_0 + HELLO_0[:-1] + b"!", "checksum")
        self.assert_wrong(HELLO_0 + HELLO_0[:-1], "cut short")

    def test_an_empty_wrapper_is_passed_over(self) -> None:
        """A reader goes on with the entry behind it, and does not wait."""
        data = encode_wrapper("gzip", b"") + HELLO_0
        decoded = self.loops.decode_set(data)
        self.assertEqual((decoded.messages, decoded.consumed), ([Message(b"hello")], len(data)))

    def test_several_wrappers_keep_the_limit_of_bytes(self) -> None:
        """The limit counts expanded bytes; the messages of all calls together are those of the whole."""
        wrapper = encode_wrapper("gzip", HELLO_0 * 100)
        decoded = self.loops.decode_set(wrapper * 3, limit_bytes=2000)
        self.assertLess(len(decoded.messages), 200)
        whole = self.loops.decode_set(wrapper * 3).messages
        self.assertEqual(all_slices(self.loops, wrapper * 3, limit_bytes=2000)[0], [tuple(each) for each in whole])


@on_each_implementation
class BoundTests(LoopsTestCase):
    """Bounds of an expanded wrapper, as a whole and for one call."""

    def test_too_many_bytes_are_refused_with_the_setting(self) -> None:
        """It is not the error of damage; it has the position behind the wrapper, where a reader may go on."""
        wrapper = encode_wrapper("gzip", HELLO_0 * 100)
        decoded = self.loops.decode_set(HELLO_0 + wrapper, 50, max_decompressed=1399)
        self.assertEqual((len(decoded.messages), decoded.position, decoded.consumed), (1, 64, 14))
        error = decoded.error
        assert isinstance(error, WrapperTooLarge)
        self.assertEqual((error.setting, error.position, error.end), ("max_decompressed", 64, 64 + len(wrapper)))
        self.assertIn("max_decompressed = 1399", str(error))
        self.assertIsNone(self.loops.decode_set(wrapper, max_decompressed=1400).error)

    def test_too_many_messages_are_refused_with_the_setting(self) -> None:
        """The bytes may be few: an empty message takes nine, and an object takes more."""
        wrapper = encode_wrapper("gzip", HELLO_0 * 100)
        decoded = self.loops.decode_set(wrapper, 50, max_decompressed_messages=99)
        error = decoded.error
        assert isinstance(error, WrapperTooLarge)
        self.assertEqual(
            (error.setting, error.position, error.end), ("max_decompressed_messages", 50, decoded.error_end)
        )
        self.assertEqual(decoded.messages, [])

    def test_as_many_messages_as_allowed_are_read(self) -> None:
        """The bound itself is allowed."""
        decoded = self.loops.decode_set(encode_wrapper("gzip", HELLO_0 * 100), max_decompressed_messages=100)
        self.assertEqual((len(decoded.messages), decoded.error, decoded.opened), (100, None, None))

    def test_slices_equal_the_whole(self) -> None:
        """Messages and positions do not depend on the slices, of any number of messages or bytes."""
        messages = [
            Message(b"x" * (n % 7), key=b"k" if n % 3 else None, headers=[("h", b"v")] * (n % 2)) for n in range(40)
        ]
        wrappers = encode_wrapper("zstd", self.loops.encode_set(messages)), encode_wrapper("gzip", HELLO_0 * 300)
        data = HELLO_0 + wrappers[0] + HELLO_1 + wrappers[1]
        whole = [tuple(each) for each in self.loops.decode_set(data, 90, topic="t", partition=2).messages]
        self.assertEqual(len(whole), 342)
        for limits in (
            {"limit": 1},
            {"limit": 7},
            {"limit_bytes": 1},
            {"limit_bytes": 100},
            {"limit": 50, "limit_bytes": 99},
        ):
            got, most = all_slices(self.loops, data, 90, **limits)
            self.assertEqual(got, whole, limits)
            self.assertLessEqual(most, limits.get("limit", 8))

    def test_slices_begin_at_any_message_of_a_wrapper(self) -> None:
        """Messages before the starting position are passed over, in slices as in one call."""
        data = HELLO_0 + encode_wrapper("zstd", self.loops.encode_set([Message(b"%09d" % (n * n)) for n in range(200)]))
        whole = self.loops.decode_set(data).messages
        for index in (0, 1, 2, 100, 200):
            got, _ = all_slices(self.loops, data, start_at=whole[index].id, limit=3)
            self.assertEqual(got, [tuple(each) for each in whole[index:]])

    def test_damage_at_a_wrappers_end_refuses_all_of_it(self) -> None:
        """In slices too: no message may be delivered before the last one is checked."""
        data = encode_wrapper("gzip", HELLO_0 * 500 + HELLO_0[:-1] + b"!")
        wrapper = None
        for _ in range(100):
            decoded = self.loops.decode_set(data, limit=20, opened=wrapper)
            wrapper = decoded.opened
            self.assertEqual((decoded.messages, decoded.consumed, decoded.position), ([], 0, 0))
            if decoded.error is not None:
                break
        self.assertIsInstance(decoded.error, CorruptMessage)
        self.assertEqual(decoded.error_end, len(data))


class BoundedWorkTests(SynchronousTestCase):
    """The work of the implementation in Python, counted inside."""

    def test_no_message_is_made_beyond_the_bound(self) -> None:
        """They are counted before the first is made; objects are what costs memory."""
        wrapper = encode_wrapper("gzip", HELLO_0 * 100)
        self.patch(OpenWrapper, "_messages", lambda *_: self.fail("messages are made"))
        decoded = loops.decode_set(wrapper, 50, max_decompressed_messages=99)
        error = decoded.error
        assert isinstance(error, WrapperTooLarge)
        self.assertEqual(
            (error.setting, error.position, error.end), ("max_decompressed_messages", 50, decoded.error_end)
        )
        self.assertEqual(decoded.messages, [])

    def test_no_call_does_more_than_a_few_times_its_limit(self) -> None:
        """A call runs in the reactor's thread; 10,000 messages in few bytes must not hold it up."""
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
            decoded = loops.decode_set(data, begin=at, limit=100, opened=wrapper)
            self.assertLessEqual(len(counted), 400)
            wrapper, at = decoded.opened, decoded.consumed
            seen += len(decoded.messages)
            calls += 1
        self.assertEqual((seen, decoded.position), (10_000, len(data)))
        self.assertLess(calls, 130)
