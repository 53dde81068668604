"""Tests of logd.protocol.message."""

from __future__ import annotations

import pickle
from typing import Any

from twisted.trial.unittest import SynchronousTestCase

from logd.protocol import loops
from logd.protocol.message import Message


class MessageTests(SynchronousTestCase):
    """A message is an immutable value."""

    def test_equal_by_content(self) -> None:
        """Two messages of the same content are equal and hash alike, wherever one of them is stored."""
        stored = loops.decode_set(loops.encode_set([Message(b"x", key=b"k")]), 700, topic="t", partition=3).messages[0]
        self.assertEqual(stored, Message(b"x", key=b"k"))
        self.assertEqual(hash(stored), hash(Message(b"x", key=b"k")))
        self.assertEqual((stored.id, stored.topic, stored.partition), (700, "t", 3))

    def test_every_part_counts(self) -> None:
        """Payload, key, time and headers each make a message another one; so does being a plain tuple."""
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

    def test_before_it_is_stored(self) -> None:
        """A new message has no place yet."""
        message = Message(b"x")
        self.assertEqual((message.id, message.next_position, message.topic, message.partition), (-1, -1, None, -1))

    def test_immutable(self) -> None:
        """Nothing can be set on a message."""
        message: Any = Message(b"x")
        with self.assertRaises(AttributeError):
            message.payload = b"y"
        with self.assertRaises(AttributeError):
            message.note = b"y"

    def test_pickle_keeps_the_place(self) -> None:
        """A message that crosses processes is the same afterwards, its place included."""
        data = loops.encode_set([Message(b"x", headers=[("a", None)])])
        (stored,) = loops.decode_set(data, 9, topic="t", partition=1).messages
        again = pickle.loads(pickle.dumps(stored))
        self.assertEqual(tuple(again), tuple(stored))
        self.assertIs(type(again), Message)

    def test_buffers_are_copied(self) -> None:
        """A payload or key given as another kind of buffer becomes bytes of its own."""
        buffer: Any = bytearray(b"abc")
        message = Message(buffer, key=memoryview(buffer)[:1])  # type: ignore[arg-type]  # more is taken than promised
        buffer[0] = 0
        self.assertEqual(message, Message(b"abc", key=b"a"))

    def test_refuses_what_no_entry_holds(self) -> None:
        """Wrong types are TypeError; a tombstone without a key, a time or a name that cannot be written ValueError."""
        bad: Any = "text"
        for wrong in (lambda: Message(bad), lambda: Message(b"", key=bad), lambda: Message(b"", headers=[("a", bad)])):
            self.assertRaises(TypeError, wrong)
        self.assertRaises(TypeError, lambda: Message(b"", headers=[(b"a", b"b")]))  # type: ignore[list-item]  # meant
        self.assertRaises(ValueError, lambda: Message(None))
        self.assertRaises(ValueError, lambda: Message(b"", timestamp=-1))
        self.assertRaises(ValueError, lambda: Message(b"", timestamp=1 << 63))
        self.assertRaises(ValueError, lambda: Message(b"", headers=[("\ud800", None)]))

    def test_repr_is_short(self) -> None:
        """repr says what is there, and never more than a line holds."""
        self.assertEqual(repr(Message(b"x", key=b"k", timestamp=5)), "Message(b'x', key=b'k', timestamp=5)")
        stored = loops.decode_set(loops.encode_set([Message(b"x")]), 8, topic="t", partition=2).messages[0]
        self.assertEqual(repr(stored), "Message(b'x', topic='t', partition=2, id=8)")
        self.assertLess(len(repr(Message(bytes(1_000_000)))), 300)
