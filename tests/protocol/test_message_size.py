"""Tests of logd.protocol.message_size."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.protocol import loops
from logd.protocol.message import Message
from logd.protocol.message_size import HEADER_MARGIN, PLAIN_BYTES, RECORD_BYTES, RECORD_MARGIN, entry_bytes
from tests.protocol.loops.implementations import properties

TIMES = st.none() | st.integers(0, (1 << 63) - 1)
HEADERS = st.lists(st.tuples(st.text(max_size=40), st.none() | st.binary(max_size=200)), max_size=5)


class MessageSizeTests(SynchronousTestCase):
    """Sizes before messages are encoded: producers bound batches and compute ids by them."""

    @given(st.binary(max_size=300), st.none() | st.binary(max_size=200), TIMES, HEADERS)
    @properties
    def test_an_entrys_size_is_exact(self, payload: bytes, key: bytes | None, time: int | None, headers: Any) -> None:
        """Each id of a message in a plain set follows from it."""
        message = Message(payload, key=key, timestamp=time, headers=headers)
        self.assertEqual(entry_bytes(message), len(loops.encode_set([message])))
        self.assertEqual(entry_bytes(Message(payload)), len(payload) + PLAIN_BYTES)
        self.assertEqual(entry_bytes(Message(None, key=b"k")), len(loops.encode_set([Message(None, key=b"k")])))

    @given(
        st.lists(st.tuples(st.binary(max_size=300), st.none() | st.binary(max_size=200), TIMES, HEADERS), min_size=1)
    )
    @properties
    def test_records_take_no_more_than_their_bound(self, given_messages: list[Any]) -> None:
        """So a batch never becomes larger than its limit, whatever times stand side by side in it."""
        messages = [Message(p, key=key, timestamp=time, headers=headers) for p, key, time, headers in given_messages]
        bound = sum(entry_bytes(each) + RECORD_MARGIN + HEADER_MARGIN * len(each.headers) for each in messages)
        self.assertLessEqual(len(loops.encode_records(messages).data), bound)

    def test_the_bound_holds_for_many_and_for_large_messages(self) -> None:
        """Their numbers and lengths take more bytes."""
        for payloads in ([b""] * 200_000, [bytes(1 << 20)] * 3):
            data = loops.encode_payload_records(payloads).data
            self.assertLessEqual(len(data), sum(len(each) + RECORD_BYTES for each in payloads))
