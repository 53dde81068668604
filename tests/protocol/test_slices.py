"""Tests of logd.protocol.slices: a check in slices against the check of the whole set."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import InvalidMessage, MessageTooLarge, WireError
from logd.protocol import loops
from logd.protocol.entry import LEAST_BYTES
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.slices import check_in_slices
from tests.protocol.strategies import message_lists

SET = MessageSet([Message(bytes(size)) for size in range(20)]).encode()


def check(data: bytes, entries: int = 3, size: int = 40, limit: int = 1000) -> loops.Checked:
    """Check in slices; return the result as ``check_set`` does."""
    whole = loops.Checked(0, -1)
    for checked in check_in_slices(data, limit, limit, entries, size):
        whole = whole.with_more(checked)
    return whole


def check_whole(data: bytes, limit: int = 1000) -> loops.Checked:
    """Check the whole set with the bounds of ``check``: the same for messages and for batches."""
    return loops.check_set(data, limit, limit)


def outcome(call: Callable[[], loops.Checked]) -> loops.Checked | type[WireError]:
    """Return what ``call`` returns, or the class of the error that it raises."""
    try:
        return call()
    except WireError as error:
        return type(error)


class SliceTests(SynchronousTestCase):
    """Sets that are checked slice by slice, so that other requests are served in between."""

    @given(message_lists.filter(bool), st.integers(1, 4), st.integers(1, 100))
    @settings(deadline=None, max_examples=100)
    def test_slices_of_a_sound_set_add_up(self, messages: list[Message], entries: int, size: int) -> None:
        """Their counts and their newest time are those of the whole set, however small the slices are."""
        data = MessageSet(messages).encode()
        self.assertEqual(check(data, entries, size), check_whole(data))

    @given(message_lists, st.data(), st.integers(1, 4), st.integers(1, 100))
    @settings(deadline=None, max_examples=300)
    def test_slices_refuse_a_set_for_the_same_reason(
        self, messages: list[Message], data: st.DataObject, entries: int, size: int
    ) -> None:
        """After any change or cut the outcome is that of the whole check, with the same class of error."""
        spoiled = bytearray(MessageSet(messages).encode())
        for _ in range(data.draw(st.integers(0, 2))):
            if spoiled:
                spoiled[data.draw(st.integers(0, len(spoiled) - 1))] = data.draw(st.integers(0, 255))
        cut = bytes(spoiled[: len(spoiled) - data.draw(st.integers(0, 9))])
        self.assertEqual(outcome(lambda: check(cut, entries, size, 30)), outcome(lambda: check_whole(cut, 30)))

    def test_slices_refuse_each_spoiled_head_for_the_same_reason(self) -> None:
        """Any value of any byte in the head of a long entry, which may then be taken for a batch of any length."""
        before, long = SET[:30], MessageSet([Message(bytes(100))]).encode()
        for at in range(LEAST_BYTES):
            for value in range(256):
                data = before + long[:at] + bytes([value]) + long[at + 1 :] + before
                for limit in (30, 1000):
                    whole = outcome(partial(check_whole, data, limit))
                    self.assertEqual(outcome(partial(check, data, 1, 1, limit)), whole, f"byte {at}: {value}")

    def test_the_error_names_the_byte(self) -> None:
        """It counts from the beginning of the set, not of the slice alone."""
        spoiled = SET[:-1] + b"x"
        error = self.assertRaises(InvalidMessage, check, spoiled, 100, 200)
        self.assertIn("behind byte 217: entry at byte 125", str(error))
        large = SET + MessageSet([Message(bytes(1001))]).encode()
        self.assertRaises(MessageTooLarge, check, large)
        self.assertEqual(str(self.assertRaises(InvalidMessage, check, b"")), "the message set is empty")

    def test_a_length_that_leads_back_is_refused(self) -> None:
        """A length of 0 or less would otherwise keep the loop over slices going for ever."""
        for length in (0, -1, -(1 << 31)):
            data = SET[:30] + length.to_bytes(4, "big", signed=True) + SET[34:]
            self.assertRaises(InvalidMessage, check, data)
