"""Tests of logd.protocol.checksums."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.checksums import crc32, independent_crc32


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
