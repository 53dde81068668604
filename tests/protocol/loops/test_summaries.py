"""Tests of the loop that says what messages have in common."""

from __future__ import annotations

from logd.protocol.loops.results import MessageSummary
from logd.protocol.message import Message
from tests.protocol.loops.implementations import LoopsTestCase, on_each_implementation

HEADERS = (("server", b"a"),)


@on_each_implementation
class SummaryTests(LoopsTestCase):
    """``summarize_messages``."""

    def test_headers_times_and_bytes_are_found(self) -> None:
        """In lists and in tuples."""
        messages = [
            Message(b"abc", timestamp=5, headers=HEADERS),
            Message(b"de", key=b"k", timestamp=3, headers=HEADERS),
        ]
        expected = MessageSummary(HEADERS, 3, 5, 6)
        for given in (messages, tuple(messages)):
            found = self.loops.summarize_messages(given)
            self.assertEqual(found, expected)
            self.assertIsInstance(found, MessageSummary)

    def test_headers_that_differ_are_none(self) -> None:
        """Equal ones are the same, whether they are one object or not; the first may be the odd one."""
        one, other = Message(b"", headers=HEADERS), Message(b"", headers=(("server", b"b"),))
        copy = Message(b"", headers=(("server", bytes([97])),))
        self.assertEqual(self.loops.summarize_messages([one, copy]).headers, HEADERS)
        self.assertIsNone(self.loops.summarize_messages([one, one, other]).headers)
        self.assertIsNone(self.loops.summarize_messages([other, one, one]).headers)
        self.assertEqual(self.loops.summarize_messages([Message(b""), Message(b"")]).headers, ())

    def test_a_message_without_a_time_leaves_no_least_time(self) -> None:
        """Wherever it stands; the greatest is that of the others."""
        timed, untimed = Message(b"", timestamp=7), Message(b"")
        for given in ([timed, untimed], [untimed, timed], [timed, untimed, timed]):
            self.assertEqual(self.loops.summarize_messages(given)[1:3], (-1, 7))
        self.assertEqual(self.loops.summarize_messages([untimed])[1:3], (-1, -1))

    def test_a_message_without_a_payload_has_the_bytes_of_its_key(self) -> None:
        """A tombstone."""
        self.assertEqual(self.loops.summarize_messages([Message(None, key=b"key")]).bytes, 3)

    def test_no_messages_have_nothing_in_common(self) -> None:
        """Of any kind."""
        self.assertEqual(self.loops.summarize_messages([]), MessageSummary(None, -1, -1, 0))
        self.assertEqual(self.loops.summarize_messages(()), MessageSummary(None, -1, -1, 0))
