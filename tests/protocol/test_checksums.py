"""Tests of logd.protocol.checksums."""

from __future__ import annotations

import zlib
from typing import Any

import google_crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.checksums import crc32, independent_crc32
from tests.protocol.loops.implementations import NOT_COMPILED

compiled: Any = None
if NOT_COMPILED is None:
    from logd.protocol import _compiled as compiled


class ChecksumTests(SynchronousTestCase):
    """zlib's CRC-32, and crcmod's as an independent implementation."""

    @settings(deadline=None, max_examples=200)
    @given(st.binary(max_size=3000))
    def test_both_implementations_agree(self, data: bytes) -> None:
        """On any input: `verify` uses the independent one, so that a bug in one of them shows."""
        self.assertEqual(independent_crc32(data), crc32(data))

    def test_both_give_the_catalogues_check_value(self) -> None:
        """Catalogues of CRCs list the value of the digits 1 to 9: the polynomial is that of zip and Ethernet."""
        self.assertEqual((crc32(b"123456789"), independent_crc32(b"123456789")), (0xCBF43926, 0xCBF43926))


class CompiledTests(SynchronousTestCase):
    """The compiled checksums, by the processor's instructions and by tables."""

    skip = NOT_COMPILED
    #: No two parts of it are alike, so that a block folded into the wrong place shows.
    data = b"".join(b"%d " % number for number in range(600))

    def assert_agree(self, data: bytes | memoryview, before: int = 0) -> None:
        """Check the four functions against zlib and google-crc32c."""
        expected = zlib.crc32(data, before)
        self.assertEqual((compiled.crc32(data, before), compiled.crc32_by_tables(data, before)), (expected,) * 2)
        expected = google_crc32c.extend(before, bytes(data))
        self.assertEqual((compiled.crc32c(data, before), compiled.crc32c_by_tables(data, before)), (expected,) * 2)

    def test_every_length_is_summed(self) -> None:
        """Blocks of 64, 16 and 8 bytes and the rest are each summed in a way of their own, from any address."""
        view = memoryview(self.data)
        for size in range(600):
            for begin in (0, 3):
                self.assert_agree(view[begin : begin + size], size * 0x01234567 & 0xFFFFFFFF)
        self.assert_agree(self.data * 50)

    @settings(deadline=None, max_examples=200)
    @given(st.binary(max_size=2000), st.integers(0, (1 << 32) - 1))
    def test_any_bytes_are_summed(self, data: bytes, before: int) -> None:
        """Behind any other bytes."""
        self.assert_agree(data, before)

    def test_wrong_arguments_are_errors(self) -> None:
        """As those of zlib are; a number before is taken modulo 2**32."""
        for name in ("crc32", "crc32c", "crc32_by_tables", "crc32c_by_tables"):
            checksum = getattr(compiled, name)
            for given_values in ((), ("text",), (5,), (b"", "text"), (b"", 1, 2)):
                with self.assertRaises(TypeError):
                    checksum(*given_values)
            self.assertEqual(checksum(b"x", (5 << 32) + 7), checksum(b"x", 7))
            self.assertEqual(checksum(b"x", -1), checksum(b"x", 0xFFFFFFFF))
