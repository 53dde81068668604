"""Tests of logd.protocol.loops on damaged sets: every prefix, every change of a single byte, random bytes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from logd.errors import InvalidMessage, MessageTooLarge
from logd.protocol.entry import encode_gap
from logd.protocol.message import Message
from logd.protocol.wrapper import encode_wrapper
from tests.protocol.loops.implementations import LoopsTestCase, on_each_implementation, properties
from tests.protocol.loops.test_loops import HELLO_0, HELLO_1, KEYED, KEYED_MESSAGE, TOMBSTONE, entry
from tests.protocol.strategies import message_lists

WRAPPER = encode_wrapper("gzip", HELLO_0 + KEYED)
MAGIC_AT = 4
ATTRIBUTES_AT = 5


def changes(data: bytes, at: int) -> Iterator[bytes]:
    """Yield ``data`` with every other value of the byte at ``at``."""
    for value in range(256):
        if value != data[at]:
            yield data[:at] + bytes((value,)) + data[at + 1 :]


@on_each_implementation
class PrefixTests(LoopsTestCase):
    """Sets that are cut."""

    @settings(properties, max_examples=50)
    @given(message_lists.filter(bool))
    def test_only_whole_entries_of_a_prefix_are_read(self, messages: list[Message]) -> None:
        """A fetch cuts entries anywhere, so a reader needs them; the broker refuses a set that is cut."""
        whole = self.loops.encode_set(messages)
        ends = [message.next_position for message in self.loops.decode_set(whole).messages]
        for stop in range(len(whole)):
            prefix = whole[:stop]
            count = sum(end <= stop for end in ends)
            decoded = self.loops.decode_set(prefix)
            self.assertEqual((decoded.messages, decoded.error), (messages[:count], None))
            self.assertEqual(decoded.consumed, ends[count - 1] if count else 0)
            if stop and stop in ends:
                self.assertEqual(self.loops.check_set(prefix, 1000)[0], count)
            else:
                self.assertRaises(InvalidMessage, self.loops.check_set, prefix, 1000)

    def test_a_wrapper_is_refused_unless_it_is_whole(self) -> None:
        """For every prefix; a reader gets the message before the wrapper."""
        for stop in range(1, len(WRAPPER)):
            self.assertRaises(InvalidMessage, self.loops.check_set, HELLO_0 + WRAPPER[:stop], 1000)
            self.assertEqual(self.loops.decode_set(HELLO_0 + WRAPPER[:stop]).messages, [Message(b"hello")])


@on_each_implementation
class SingleByteTests(LoopsTestCase):
    """Sets with one changed byte."""

    def assert_detected(self, damaged: bytes) -> None:
        """Check that the broker refuses a set, and that a reader of the whole set notices."""
        try:
            self.loops.check_set(damaged, 1000)
        except (InvalidMessage, MessageTooLarge):
            pass
        else:
            self.fail(f"not detected: {damaged.hex()}")
        decoded = self.loops.decode_set(damaged)
        self.assertTrue(decoded.error is not None or decoded.consumed != len(damaged), damaged.hex())

    def test_every_change_of_a_byte_is_detected(self) -> None:
        """In every kind of entry, with the exceptions that the next tests state."""
        for data in (HELLO_0, HELLO_1, KEYED, TOMBSTONE, WRAPPER):
            for at in range(len(data)):
                if at == ATTRIBUTES_AT and data[MAGIC_AT] == 1:
                    continue
                for changed in changes(data, at):
                    if at == MAGIC_AT and {data[at], changed[at]} == {0, 2}:
                        continue
                    self.assert_detected(changed + HELLO_0)
                    self.assert_detected(HELLO_0 + changed)

    @settings(properties, max_examples=300)
    @given(message_lists.filter(bool), st.data())
    def test_a_change_in_any_set_is_detected(self, messages: list[Message], data: st.DataObject) -> None:
        """In sets of any messages, with the exception of magic 0 and 2."""
        whole = self.loops.encode_set(messages)
        at = data.draw(st.integers(0, len(whole) - 1))
        change = data.draw(st.integers(1, 255))
        magics = {message.id + MAGIC_AT for message in self.loops.decode_set(whole).messages}
        assume(not (at in magics and change == 2))
        self.assert_detected(whole[:at] + bytes((whole[at] ^ change,)) + whole[at + 1 :])

    def test_wrapper_attributes_are_checked_by_the_payload(self) -> None:
        """No checksum covers the attributes of magic 1, so that only the payload can show a change.

        The broker refuses a payload that cannot be of the claimed codec, and a reader takes it for corrupt. Both ignore
        the upper bits, and take the payload as it is where no codec is claimed.
        """
        for changed in changes(HELLO_1, ATTRIBUTES_AT):
            decoded = self.loops.decode_set(changed)
            if changed[ATTRIBUTES_AT] & 3:
                self.assertRaises(InvalidMessage, self.loops.check_set, changed, 1000)
                self.assertIsNotNone(decoded.error)
            else:
                self.loops.check_set(changed, 1000)
                self.assertEqual(decoded.messages, [Message(b"hello")])
        for changed in changes(WRAPPER, ATTRIBUTES_AT):
            if changed[ATTRIBUTES_AT] & 3 in (0, 1):
                self.loops.check_set(changed, 1000)
            else:
                self.assertRaises(InvalidMessage, self.loops.check_set, changed, 1000)
            decoded = self.loops.decode_set(changed)
            if changed[ATTRIBUTES_AT] & 3 == 0:
                self.assertEqual(decoded.messages, [Message(WRAPPER[10:])])
            elif changed[ATTRIBUTES_AT] & 3 == 1:
                self.assertEqual(decoded.messages, [Message(b"hello"), KEYED_MESSAGE])
            else:
                self.assertIsNotNone(decoded.error)

    def test_magic_0_and_2_have_the_same_checksum(self) -> None:
        """It stands in one place over the same bytes, and does not cover the magic.

        So a magic 2 that becomes 0 is a sound magic-0 message whose payload begins with the fields; the other way
        round it is detected unless the payload happens to be such fields.
        """
        changed = KEYED[:MAGIC_AT] + b"\0" + KEYED[MAGIC_AT + 1 :]
        self.assertEqual(self.loops.check_set(changed, 1000), (1, -1))
        self.assertEqual(self.loops.decode_set(changed).messages, [Message(KEYED[9:])])
        for payload in (b"hello", b"a line of a web server's log, as they are"):
            plain = self.loops.encode_set([Message(payload)])
            self.assert_detected(plain[:MAGIC_AT] + b"\x02" + plain[MAGIC_AT + 1 :])

    def test_the_body_of_a_gap_may_hold_anything(self) -> None:
        """Only its first nine bytes are written and checked; the rest may be a hole in the file."""
        gap = encode_gap(20) + bytes(11)
        for at in range(len(gap)):
            for changed in changes(gap, at):
                decoded = self.loops.decode_set(changed + HELLO_0)
                if at < 9:
                    self.assertIsNotNone(decoded.error or decoded.needed or None)
                    self.assertEqual(decoded.messages, [])
                else:
                    self.assertEqual((decoded.messages, decoded.gaps), ([Message(b"hello")], 1))


@on_each_implementation
class AnyBytesTests(LoopsTestCase):
    """Random bytes, and strange bodies under a checksum that holds."""

    @settings(properties, max_examples=300)
    @given(st.binary(max_size=80), st.integers(0, 20))
    def test_random_bytes_are_refused_or_read(self, data: bytes, position: int) -> None:
        """Nothing else is raised, and a reader never goes beyond their end."""
        for noise in (data, HELLO_0 + data, KEYED + data):
            with contextlib.suppress(InvalidMessage, MessageTooLarge):
                self.loops.check_set(noise, 1000)
            decoded = self.loops.decode_set(noise, position)
            self.assertLessEqual(decoded.consumed, len(noise))

    @settings(properties, max_examples=300)
    @given(message_lists.filter(bool), st.data())
    def test_a_body_that_the_broker_takes_can_be_read(self, messages: list[Message], data: st.DataObject) -> None:
        """The broker refuses a strange magic-2 body exactly when a reader fails: else it would stop every consumer."""
        whole = self.loops.encode_set(messages)
        body = bytearray(whole[9:] + bytes(14))
        for _ in range(data.draw(st.integers(1, 3))):
            body[data.draw(st.integers(0, min(len(body), 40) - 1))] = data.draw(st.integers(0, 255))
        strange = entry(bytes(body))
        try:
            self.loops.check_set(strange, 10_000)
        except InvalidMessage:
            self.assertIsNotNone(self.loops.decode_set(strange).error)
        else:
            decoded = self.loops.decode_set(strange)
            self.assertEqual((decoded.error, len(decoded.messages)), (None, 1))
