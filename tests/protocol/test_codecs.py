"""Tests of logd.protocol.codecs."""

from __future__ import annotations

import contextlib
import gzip
import tracemalloc
from struct import pack

import cramjam
from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.errors import CorruptMessage, WrapperTooLarge
from logd.protocol.codecs import compress, decompress
from tests.protocol.strategies import codecs

CODECS = ("gzip", "snappy", "zstd")


class CodecTests(SynchronousTestCase):
    """Compression and its bounds."""

    @settings(deadline=None, max_examples=60)
    @given(codecs, st.binary(max_size=500), st.integers(1, 400))
    def test_round_trip(self, codec: str, data: bytes, times: int) -> None:
        """What was compressed comes back, when the bound is exactly its size."""
        self.assertEqual(decompress(codec, compress(codec, data * times), len(data * times)), data * times)

    @settings(deadline=None, max_examples=60)
    @given(codecs, st.binary(max_size=200))
    def test_random_bytes(self, codec: str, data: bytes) -> None:
        """Bytes of no codec give an error, or by chance bytes within the bound: nothing else."""
        with contextlib.suppress(CorruptMessage, WrapperTooLarge):
            self.assertLessEqual(len(decompress(codec, data, 1000)), 1000)

    def test_every_prefix_is_refused(self) -> None:
        """Data that is cut short is never taken for whole, but for snappy's framing, whose blocks stand alone."""
        data = bytes(range(256)) * 300
        for codec in CODECS:
            whole = compress(codec, data)
            for stop in range(0, len(whole), 97):
                if codec == "snappy" and stop == 16:
                    continue
                try:
                    out = decompress(codec, whole[:stop], len(data))
                except CorruptMessage:
                    continue
                self.assertEqual((codec, out), ("snappy", data[: len(out)]))

    def test_one_byte_too_many(self) -> None:
        """The bound is exact, and what exceeds it is told from damage by an error that names the setting."""
        for codec in CODECS:
            data = compress(codec, bytes(100_001))
            error = self.assertRaises(WrapperTooLarge, decompress, codec, data, 100_000)
            self.assertEqual((error.setting, error.limit), ("max_decompressed", 100_000))
            self.assertIn("max_decompressed = 100000", str(error))

    def test_bomb_allocates_no_more_than_the_bound(self) -> None:
        """100 MB of zeros in a few KB cost no more than the 2 MB allowed, with the copy of the result."""
        zeros = bytes(100_000_000)
        bombs = {"gzip": bytes(cramjam.gzip.compress(zeros)), "zstd": bytes(cramjam.zstd.compress(zeros, level=1))}
        raw = bytes(cramjam.snappy.compress_raw(zeros))
        bombs["snappy"] = raw
        del zeros
        for codec, bomb in bombs.items():
            tracemalloc.start()
            self.assertRaises(WrapperTooLarge, decompress, codec, bomb, 2_000_000)
            peak = tracemalloc.get_traced_memory()[1]
            tracemalloc.stop()
            self.assertLess(peak, 5_000_000, codec)

    def test_gzip_from_elsewhere(self) -> None:
        """gzip of another maker is read, in several members too, where the size at the end is of the last only."""
        data = gzip.compress(b"a" * 5000) + gzip.compress(b"b" * 10)
        self.assertEqual(decompress("gzip", data, 10_000), b"a" * 5000 + b"b" * 10)

    def test_snappy_is_xerial_framed(self) -> None:
        """What is written begins as Java's SnappyOutputStream does, with blocks of 32 KiB."""
        data = compress("snappy", bytes(40_000))
        self.assertEqual(data[:16].hex(), "82534e415050590000000001" + "00000001")
        first = int.from_bytes(data[16:20], "big")
        self.assertEqual(len(bytes(cramjam.snappy.decompress_raw(data[20 : 20 + first]))), 32768)

    def test_raw_snappy_is_read(self) -> None:
        """A block without framing is tolerated."""
        self.assertEqual(decompress("snappy", bytes(cramjam.snappy.compress_raw(b"abc" * 9)), 27), b"abc" * 9)

    def test_snappy_block_that_lies(self) -> None:
        """Blocks whose length is negative, too long, or cut in its own bytes are refused."""
        head = compress("snappy", b"")
        for tail in (pack(">i", -1), pack(">i", 5) + b"abc", b"\0\0"):
            self.assertRaises(CorruptMessage, decompress, "snappy", head + tail, 100)

    def test_snappy_block_that_claims_what_cannot_be(self) -> None:
        """A size that no bytes of that number could become is damage, not a wrapper too large."""
        self.assertRaises(CorruptMessage, decompress, "snappy", b"\xff\xff\xff\x7f" + bytes(50), 1000)

    def test_unknown_codec(self) -> None:
        """Other names are a caller's mistake."""
        self.assertRaises(ValueError, compress, "lzma", b"")
        self.assertRaises(ValueError, decompress, "none", b"", 1)
