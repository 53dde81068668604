"""Tests of logd.protocol.varint and logd.protocol.headers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.headers import decode_headers, encode_headers
from logd.protocol.varint import decode_varint, encode_varint
from tests.protocol.strategies import texts


class VarintTests(SynchronousTestCase):
    """Unsigned LEB128 of at most five bytes."""

    def test_vectors(self) -> None:
        """The lengths change where they should."""
        for value, expected in ((0, "00"), (127, "7f"), (128, "8001"), (16384, "808001"), (2**32 - 1, "ffffffff0f")):
            self.assertEqual(encode_varint(value).hex(), expected)

    @settings(deadline=None)
    @given(st.integers(0, (1 << 35) - 1), st.binary(max_size=3), st.binary(max_size=3))
    def test_round_trip(self, value: int, before: bytes, after: bytes) -> None:
        """What was written is read, wherever it stands."""
        encoded = encode_varint(value)
        data = before + encoded + after
        self.assertEqual(decode_varint(data, len(before), len(data)), (value, len(before) + len(encoded)))

    def test_refuses_too_long(self) -> None:
        """A sixth byte and a missing byte are errors."""
        self.assertRaises(ValueError, decode_varint, b"\x80\x80\x80\x80\x80\x00", 0, 6)
        self.assertRaises(ValueError, decode_varint, b"\x80\x01", 0, 1)
        self.assertRaises(ValueError, decode_varint, b"", 0, 0)


class HeadersTests(SynchronousTestCase):
    """The headers of a magic-2 entry."""

    @settings(deadline=None)
    @given(
        st.lists(st.tuples(texts, st.none() | st.binary(max_size=300)), max_size=4).map(tuple), st.binary(max_size=3)
    )
    def test_round_trip(self, headers: tuple[tuple[str, bytes | None], ...], after: bytes) -> None:
        """Headers come back as they were, and the index behind them is right."""
        encoded = encode_headers(headers)
        self.assertEqual(decode_headers(encoded + after, 0, len(encoded + after)), (headers, len(encoded)))

    @settings(deadline=None)
    @given(st.lists(st.tuples(texts, st.none() | st.binary(max_size=9)), min_size=1, max_size=3).map(tuple))
    def test_every_prefix_is_refused(self, headers: tuple[tuple[str, bytes | None], ...]) -> None:
        """Headers that are cut off are an error, never fewer headers."""
        encoded = encode_headers(headers)
        for stop in range(len(encoded)):
            self.assertRaises(ValueError, decode_headers, encoded, 0, stop)

    def test_refuses_a_count_that_cannot_be_true(self) -> None:
        """Thousands of millions of headers in a few bytes are refused at once."""
        self.assertRaises(ValueError, decode_headers, bytes.fromhex("ffffffff0f") + bytes(100), 0, 105)

    def test_refuses_a_name_that_is_not_utf8(self) -> None:
        """A name has to be text."""
        self.assertRaises(ValueError, decode_headers, b"\x01\x01\xff\x00", 0, 4)
