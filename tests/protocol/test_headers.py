"""Tests of logd.protocol.varint and logd.protocol.headers."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.headers import decode_headers, encode_headers
from logd.protocol.varint import decode_varint, encode_varint
from tests.protocol.strategies import texts


class VarintTests(SynchronousTestCase):
    """Varints: unsigned LEB128 of at most five bytes."""

    def test_varints_grow_at_powers_of_128(self) -> None:
        """Known values on both sides of each change of length."""
        for value, expected in ((0, "00"), (127, "7f"), (128, "8001"), (16384, "808001"), (2**32 - 1, "ffffffff0f")):
            self.assertEqual(encode_varint(value).hex(), expected)

    @settings(deadline=None)
    @given(st.integers(0, (1 << 35) - 1), st.binary(max_size=3), st.binary(max_size=3))
    def test_a_varint_comes_back_from_any_place(self, value: int, before: bytes, after: bytes) -> None:
        """Other bytes before and behind it do not matter, and the index behind it is right."""
        encoded = encode_varint(value)
        data = before + encoded + after
        self.assertEqual(decode_varint(data, len(before), len(data)), (value, len(before) + len(encoded)))

    def test_a_varint_too_long_or_cut_is_refused(self) -> None:
        """A sixth byte would exceed 35 bits, and a missing one would read into the next field."""
        self.assertRaises(ValueError, decode_varint, b"\x80\x80\x80\x80\x80\x00", 0, 6)
        self.assertRaises(ValueError, decode_varint, b"\x80\x01", 0, 1)
        self.assertRaises(ValueError, decode_varint, b"", 0, 0)


class HeadersTests(SynchronousTestCase):
    """The headers of a magic-2 entry."""

    @settings(deadline=None)
    @given(
        st.lists(st.tuples(texts, st.none() | st.binary(max_size=300)), max_size=4).map(tuple), st.binary(max_size=3)
    )
    def test_headers_come_back_as_they_were(self, headers: tuple[tuple[str, bytes | None], ...], after: bytes) -> None:
        """A value of None stays different from an empty one, and the index behind them is right."""
        encoded = encode_headers(headers)
        self.assertEqual(decode_headers(encoded + after, 0, len(encoded + after)), (headers, len(encoded)))

    @settings(deadline=None)
    @given(st.lists(st.tuples(texts, st.none() | st.binary(max_size=9)), min_size=1, max_size=3).map(tuple))
    def test_every_prefix_of_headers_is_refused(self, headers: tuple[tuple[str, bytes | None], ...]) -> None:
        """Cut headers must never pass for fewer headers."""
        encoded = encode_headers(headers)
        for stop in range(len(encoded)):
            self.assertRaises(ValueError, decode_headers, encoded, 0, stop)

    def test_an_impossible_count_of_headers_is_refused(self) -> None:
        """Thousands of millions of headers in a few bytes would keep a reader busy for hours."""
        self.assertRaises(ValueError, decode_headers, bytes.fromhex("ffffffff0f") + bytes(100), 0, 105)

    def test_a_header_name_that_is_not_utf8_is_refused(self) -> None:
        """Readers hand names out as text."""
        self.assertRaises(ValueError, decode_headers, b"\x01\x01\xff\x00", 0, 4)
