"""Tests of logd.protocol.message_set and logd.protocol.wrapper."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from twisted.trial.unittest import SynchronousTestCase

from logd.protocol import loops
from logd.protocol.codecs import CODEC_NUMBERS
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet, encode_messages, wrap
from logd.protocol.wrapper import encode_wrapper
from tests.protocol.strategies import codecs, message_lists


class MessageSetTests(SynchronousTestCase):
    """Sets of messages, plain and compressed."""

    @settings(deadline=None)
    @given(message_lists, codecs)
    def test_a_compressed_set_comes_back_whole(self, messages: list[Message], codec: str) -> None:
        """It passes the broker's check as well, by each codec."""
        data = MessageSet(messages, codec).encode()
        self.assertEqual(loops.decode_set(data).messages, messages)
        if messages:
            loops.check_set(data, 1_000_000)

    def test_a_compressed_set_is_one_entry_with_its_codec(self) -> None:
        """The entry is of magic 1, and the attributes name the codec to consumers."""
        for codec in ("gzip", "snappy", "zstd"):
            data = MessageSet([Message(b"abc")] * 3, codec).encode()
            self.assertEqual((data[4], data[5]), (1, CODEC_NUMBERS[codec]))
            self.assertEqual(loops.check_set(data, 1000)[0], 1)

    def test_a_set_is_a_collection_of_its_own(self) -> None:
        """It copies the list that it is given, which a caller may clear at once."""
        given_list = [Message(b"a"), Message(b"b")]
        message_set = MessageSet(given_list)
        given_list.clear()
        self.assertEqual((len(message_set), list(message_set)), (2, [Message(b"a"), Message(b"b")]))

    def test_an_unknown_compression_is_refused(self) -> None:
        """The error lists the names that are allowed."""
        error = self.assertRaises(ValueError, MessageSet, [], "lzma")
        self.assertIn("none, gzip, snappy, zstd", str(error))

    def test_a_wrapper_never_has_more_messages_than_bytes(self) -> None:
        """Each message needs a position of its own: 10,000 empty messages become as many wrappers as that takes."""
        messages = [Message(b"")] * 10_000
        for codec in ("gzip", "zstd", "snappy"):
            decoded = loops.decode_set(encode_messages(messages, codec), 0)
            self.assertEqual(decoded.messages, messages)
            ids = [message.id for message in decoded.messages]
            self.assertEqual(sorted(set(ids)), ids)

    def test_a_wrapper_stays_below_the_message_limit(self) -> None:
        """A set of random bytes does not compress; it becomes several wrappers instead of a refused one."""
        random = Random(1)
        messages = [Message(random.randbytes(1000)) for _ in range(100)]
        data = wrap(messages, "gzip", 20_000)
        self.assertGreaterEqual(loops.check_set(data, 20_000)[0], 5)
        self.assertEqual(loops.decode_set(data).messages, messages)

    def test_a_wrapper_stays_below_the_readers_bound(self) -> None:
        """Readers refuse to expand more by default; a single message above the bound is sent plain."""
        messages = [Message(bytes(30 << 20))] * 3
        data = wrap(messages, "zstd")
        self.assertEqual(loops.check_set(data, 1 << 20)[0], 2)
        self.assertEqual([len(each.payload or b"") for each in loops.decode_set(data).messages], [30 << 20] * 3)
        self.assertEqual(wrap([Message(bytes(65 << 20))], "zstd")[4], 0)

    def test_an_empty_set_has_no_bytes(self) -> None:
        """Compressed or not: a wrapper of nothing would only take room in the log."""
        self.assertEqual((MessageSet([]).encode(), MessageSet([], "zstd").encode()), (b"", b""))


class WrapperPositionTests(SynchronousTestCase):
    """Positions inside a wrapper, each of which is one number."""

    def test_messages_carry_their_positions(self) -> None:
        """After j of n messages it is wrapper_end - (n - j), and the wrapper's start for j = 0 (docs/protocol.md)."""
        data = encode_wrapper("gzip", loops.encode_set([Message(b"a"), Message(b"b"), Message(b"c")]))
        end = 1000 + len(data)
        places = [(message.id, message.next_position) for message in loops.decode_set(data, 1000).messages]
        self.assertEqual(places, [(1000, end - 2), (end - 2, end - 1), (end - 1, end)])

    def test_a_wrapper_with_too_few_bytes_has_one_position(self) -> None:
        """A foreign producer may send more messages than bytes: every position but the last is then the start."""
        data = encode_wrapper("gzip", loops.encode_set([Message(b"")] * 1000))
        self.assertLess(len(data), 1000)
        positions = [message.next_position for message in loops.decode_set(data, 50).messages]
        self.assertEqual(positions, [50] * 999 + [50 + len(data)])

    @settings(deadline=None, max_examples=40)
    @given(message_lists, message_lists, codecs)
    def test_a_consumer_may_start_at_any_position(
        self, first: list[Message], second: list[Message], codec: str
    ) -> None:
        """From any message's next position on it gets exactly the messages behind it."""
        data = encode_messages(first, codec) + loops.encode_set(second)
        everything = loops.decode_set(data, 50).messages
        for count, message in enumerate(everything, 1):
            rest = loops.decode_set(data, 50, start_at=message.next_position).messages
            self.assertEqual(list(map(tuple, rest)), list(map(tuple, everything[count:])))

    def test_a_wrapper_with_too_few_bytes_is_read_from_its_start(self) -> None:
        """All 10,000 messages have the wrapper's position, and all are delivered."""
        messages = [Message(b"")] * 10_000
        data = encode_wrapper("gzip", loops.encode_set(messages))
        self.assertLess(len(data), len(messages))
        decoded = loops.decode_set(data, 70, start_at=70)
        self.assertEqual(len(decoded.messages), 10_000)
        self.assertEqual({message.id for message in decoded.messages}, {70})
        self.assertEqual(decoded.messages[-1].next_position, 70 + len(data))
