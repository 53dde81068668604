"""Tests of the reading of dead letters: a message is one only if it could go back to where it says it came from."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.client.dead_letters.letter import MESSAGE, DeadLetter, Origin, read_letter
from logd.protocol.message import Message

LETTER = DeadLetter(
    origin=Origin("orders", 3, 70, 90, "uuid", "kitchen"),
    kind=MESSAGE,
    error="KeyError",
    text="'count'",
    time=1000,
    attempts=3,
    count=1,
    message=Message(b"payload", key=b"key", headers=(("shop", b"\xff"),)),
)


def changed(name: str, value: bytes | None) -> Message:
    """Return the letter with another value in one of its headers."""
    message = LETTER.encoded()
    headers = tuple((each, value if each == f"dead-letter.{name}" else old) for each, old in message.headers)
    return Message(message.payload, key=message.key, timestamp=message.timestamp, headers=headers)


class ReadLetterTests(SynchronousTestCase):
    """Letters of others than logd, which may say anything."""

    def test_what_was_encoded(self) -> None:
        """A letter comes back as it was."""
        self.assertEqual(read_letter(LETTER.encoded()), LETTER)

    def test_names_that_no_topic_has(self) -> None:
        """A letter that came from no topic is none: a replay passes it instead of failing at it again and again."""
        for name in (b"", None, b"..", b"a/b", b"\x1b[31m", b"\xff", b"x" * 201):
            with self.assertRaisesRegex(ValueError, "'dead-letter.topic': topic name .* is not allowed"):
                read_letter(changed("topic", name))

    def test_numbers_that_no_log_has(self) -> None:
        """Numbers beyond 64 bits with a sign, of other digits and with signs are refused."""
        for digits in (b"9" * 30, b"9223372036854775808", b"-1", b"+1", b"1_0", "\u0663".encode(), b"", None):
            with self.assertRaisesRegex(ValueError, "'dead-letter.id' is .*, not a number"):
                read_letter(changed("id", digits))
        self.assertEqual(read_letter(changed("id", b"9223372036854775807")).origin.start, (1 << 63) - 1)
