"""Tests of logd.protocol.checksums."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.checksums import crc32, independent_crc32


class ChecksumTests(SynchronousTestCase):
    """Two implementations of one polynomial."""

    @settings(deadline=None, max_examples=200)
    @given(st.binary(max_size=3000))
    def test_equal(self, data: bytes) -> None:
        """crcmod and zlib agree on every input."""
        self.assertEqual(independent_crc32(data), crc32(data))

    def test_known_value(self) -> None:
        """Both give the CRC-32 that the catalogues give for the digits."""
        self.assertEqual((crc32(b"123456789"), independent_crc32(b"123456789")), (0xCBF43926, 0xCBF43926))
