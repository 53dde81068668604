"""Tests of logd.protocol.message_set and logd.protocol.wrapper."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from twisted.trial.unittest import SynchronousTestCase

from logd.protocol import loops
from logd.protocol.codecs import CODEC_NUMBERS
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet, encode_messages, wrap
from logd.protocol.wrapper import encode_wrapper, wrapper_positions
from tests.protocol.strategies import codecs, message_lists


class MessageSetTests(SynchronousTestCase):
    """What a producer sends in one piece."""

    @settings(deadline=None)
    @given(message_lists, codecs)
    def test_round_trip_compressed(self, messages: list[Message], codec: str) -> None:
        """A compressed set passes the broker's check and comes back whole."""
        data = MessageSet(messages, codec).encode()
        self.assertEqual(loops.decode_set(data).messages, messages)
        if messages:
            loops.check_set(data, 1_000_000)

    def test_codec_is_in_the_attributes(self) -> None:
        """A compressed set is one magic-1 entry that names its codec."""
        for codec in ("gzip", "snappy", "zstd"):
            data = MessageSet([Message(b"abc")] * 3, codec).encode()
            self.assertEqual((data[4], data[5]), (1, CODEC_NUMBERS[codec]))
            self.assertEqual(loops.check_set(data, 1000)[0], 1)

    def test_is_a_collection(self) -> None:
        """Length and iteration are those of the messages; later changes of the list given do not reach it."""
        given_list = [Message(b"a"), Message(b"b")]
        message_set = MessageSet(given_list)
        given_list.clear()
        self.assertEqual((len(message_set), list(message_set)), (2, [Message(b"a"), Message(b"b")]))

    def test_refuses_an_unknown_compression(self) -> None:
        """The error names what is allowed."""
        error = self.assertRaises(ValueError, MessageSet, [], "lzma")
        self.assertIn("none, gzip, snappy, zstd", str(error))

    def test_never_more_messages_than_bytes(self) -> None:
        """Ten thousand empty messages, which compress to next to nothing, are split until each has its own position."""
        messages = [Message(b"")] * 10_000
        for codec in ("gzip", "zstd", "snappy"):
            decoded = loops.decode_set(encode_messages(messages, codec), 0)
            self.assertEqual(decoded.messages, messages)
            ids = [message.id for message in decoded.messages]
            self.assertEqual(sorted(set(ids)), ids)

    def test_wrapper_is_kept_below_the_message_limit(self) -> None:
        """A set that does not compress below the broker's limit becomes several wrappers that are."""
        random = Random(1)
        messages = [Message(random.randbytes(1000)) for _ in range(100)]
        data = wrap(messages, "gzip", 20_000)
        self.assertGreaterEqual(loops.check_set(data, 20_000)[0], 5)
        self.assertEqual(loops.decode_set(data).messages, messages)

    def test_never_more_than_readers_open(self) -> None:
        """What would become more than readers open by default is split, and a single such message is left plain."""
        messages = [Message(bytes(30 << 20))] * 3
        data = wrap(messages, "zstd")
        self.assertEqual(loops.check_set(data, 1 << 20)[0], 2)
        self.assertEqual([len(each.payload or b"") for each in loops.decode_set(data).messages], [30 << 20] * 3)
        self.assertEqual(wrap([Message(bytes(65 << 20))], "zstd")[4], 0)

    def test_a_set_of_nothing(self) -> None:
        """No messages are no bytes, compressed or not."""
        self.assertEqual((MessageSet([]).encode(), MessageSet([], "zstd").encode()), (b"", b""))


class WrapperPositionTests(SynchronousTestCase):
    """The one number that is stored for a place inside a wrapper."""

    def test_rule(self) -> None:
        """The position after j of n messages is wrapper_end - (n - j), and the start for j = 0."""
        self.assertEqual(wrapper_positions(100, 150, 3), [100, 148, 149, 150])
        self.assertEqual(wrapper_positions(100, 150, 1), [100, 150])
        self.assertEqual(wrapper_positions(100, 103, 3), [100, 101, 102, 103])

    def test_foreign_wrapper_that_breaks_the_rule(self) -> None:
        """With more messages than bytes every position but the last is the start."""
        self.assertEqual(wrapper_positions(100, 102, 3), [100, 100, 100, 102])

    def test_messages_carry_them(self) -> None:
        """Each message of a wrapper has its position as id and the next one to go on from."""
        data = encode_wrapper("gzip", loops.encode_set([Message(b"a"), Message(b"b"), Message(b"c")]))
        end = 1000 + len(data)
        places = [(message.id, message.next_position) for message in loops.decode_set(data, 1000).messages]
        self.assertEqual(places, [(1000, end - 2), (end - 2, end - 1), (end - 1, end)])

    @settings(deadline=None, max_examples=40)
    @given(message_lists, message_lists, codecs)
    def test_start_at_any_position(self, first: list[Message], second: list[Message], codec: str) -> None:
        """A consumer that starts at any message's next position gets exactly the messages after it."""
        data = encode_messages(first, codec) + loops.encode_set(second)
        everything = loops.decode_set(data, 50).messages
        for count, message in enumerate(everything, 1):
            rest = loops.decode_set(data, 50, start_at=message.next_position).messages
            self.assertEqual(list(map(tuple, rest)), list(map(tuple, everything[count:])))

    def test_start_in_a_foreign_wrapper(self) -> None:
        """At the start of a wrapper that breaks the rule all of it is delivered."""
        messages = [Message(b"")] * 10_000
        data = encode_wrapper("gzip", loops.encode_set(messages))
        self.assertLess(len(data), len(messages))
        decoded = loops.decode_set(data, 70, start_at=70)
        self.assertEqual(len(decoded.messages), 10_000)
        self.assertEqual({message.id for message in decoded.messages}, {70})
        self.assertEqual(decoded.messages[-1].next_position, 70 + len(data))
