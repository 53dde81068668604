"""Tests of logd.protocol.message."""

from __future__ import annotations

import pickle
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.protocol import loops
from logd.protocol.message import Message


class MessageTests(SynchronousTestCase):
    """Messages as immutable values."""

    def test_messages_of_one_content_are_equal(self) -> None:
        """They hash alike too; the place where one of them is stored does not count."""
        stored = loops.decode_set(loops.encode_set([Message(b"x", key=b"k")]), 700, topic="t", partition=3).messages[0]
        self.assertEqual(stored, Message(b"x", key=b"k"))
        self.assertEqual(hash(stored), hash(Message(b"x", key=b"k")))
        self.assertEqual((stored.id, stored.topic, stored.partition), (700, "t", 3))

    def test_every_part_distinguishes_messages(self) -> None:
        """Payload, key, time and headers each do; nor is a message equal to a plain tuple."""
        base = Message(b"x", key=b"k", timestamp=1, headers=[("a", b"b")])
        for other in (
            Message(b"y", key=b"k", timestamp=1, headers=[("a", b"b")]),
            Message(b"x", key=b"j", timestamp=1, headers=[("a", b"b")]),
            Message(b"x", key=b"k", timestamp=2, headers=[("a", b"b")]),
            Message(b"x", key=b"k", timestamp=1, headers=[("a", None)]),
            tuple(base),
        ):
            self.assertNotEqual(base, other)
            self.assertTrue(base != other)

    def test_a_new_message_has_no_place(self) -> None:
        """Its id, position, topic and partition have values that no stored message has."""
        message = Message(b"x")
        self.assertEqual((message.id, message.next_position, message.topic, message.partition), (-1, -1, None, -1))

    def test_a_message_is_immutable(self) -> None:
        """Neither its fields nor new attributes can be set, so that it can be shared and hashed."""
        message: Any = Message(b"x")
        with self.assertRaises(AttributeError):
            message.payload = b"y"
        with self.assertRaises(AttributeError):
            message.note = b"y"

    def test_pickling_keeps_the_place(self) -> None:
        """A message may cross processes, and a worker must know which one it handles."""
        data = loops.encode_set([Message(b"x", headers=[("a", None)])])
        (stored,) = loops.decode_set(data, 9, topic="t", partition=1).messages
        again = pickle.loads(pickle.dumps(stored))
        self.assertEqual(tuple(again), tuple(stored))
        self.assertIs(type(again), Message)

    def test_a_message_copies_mutable_buffers(self) -> None:
        """A caller may fill its buffer anew while the message waits in a batch."""
        buffer: Any = bytearray(b"abc")
        message = Message(buffer, key=memoryview(buffer)[:1])  # type: ignore[arg-type]  # more is taken than promised
        buffer[0] = 0
        self.assertEqual(message, Message(b"abc", key=b"a"))

    def test_a_message_that_no_entry_holds_is_refused(self) -> None:
        """TypeError for wrong types; ValueError for a tombstone without a key, or a time or name out of range."""
        bad: Any = "text"
        for wrong in (lambda: Message(bad), lambda: Message(b"", key=bad), lambda: Message(b"", headers=[("a", bad)])):
            self.assertRaises(TypeError, wrong)
        self.assertRaises(TypeError, lambda: Message(b"", headers=[(b"a", b"b")]))  # type: ignore[list-item]  # meant
        self.assertRaises(ValueError, lambda: Message(None))
        self.assertRaises(ValueError, lambda: Message(b"", timestamp=-1))
        self.assertRaises(ValueError, lambda: Message(b"", timestamp=1 << 63))
        self.assertRaises(ValueError, lambda: Message(b"", headers=[("\ud800", None)]))

    def test_a_time_is_a_whole_number(self) -> None:
        """``time.time() * 1000`` is none: a producer would find that out only when it sends the batch."""
        wrong: Any
        for wrong in (1.5, 1e12, "now", b"1"):
            error = self.assertRaises(TypeError, Message, b"", timestamp=wrong)
            self.assertIn("int(time.time() * 1000)", str(error))

        class Milliseconds:
            """Is no int, but can be used as one, like the integers of numpy."""

            def __index__(self) -> int:
                return 5

        milliseconds: Any = Milliseconds()
        taken = Message(b"", timestamp=milliseconds)
        self.assertIs(type(taken.timestamp), int)

    def test_headers_are_pairs(self) -> None:
        """The error names the remedy for a dict, which is the most likely mistake."""
        wrong: Any
        for wrong in ({"a": b"b"}, {"ab": b"c"}, ["ab"], [("a", b"b", b"c")], [3]):
            error = self.assertRaises(TypeError, Message, b"", headers=wrong)
            self.assertIn("(name, value) pairs", str(error))

    def test_the_repr_of_a_message_is_short(self) -> None:
        """It shows the parts that the message has; a megabyte of payload must not fill a terminal."""
        self.assertEqual(repr(Message(b"x", key=b"k", timestamp=5)), "Message(b'x', key=b'k', timestamp=5)")
        stored = loops.decode_set(loops.encode_set([Message(b"x")]), 8, topic="t", partition=2).messages[0]
        self.assertEqual(repr(stored), "Message(b'x', topic='t', partition=2, id=8)")
        self.assertLess(len(repr(Message(bytes(1_000_000)))), 300)
