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
    def test_compressed_data_comes_back_within_an_exact_bound(self, codec: str, data: bytes, times: int) -> None:
        """The bound is the data's own size, so that it must not be off by one."""
        self.assertEqual(decompress(codec, compress(codec, data * times), len(data * times)), data * times)

    @settings(deadline=None, max_examples=60)
    @given(codecs, st.binary(max_size=200))
    def test_random_bytes_fail_or_stay_within_the_bound(self, codec: str, data: bytes) -> None:
        """No other exception comes out of a codec, whose libraries raise many."""
        with contextlib.suppress(CorruptMessage, WrapperTooLarge):
            self.assertLessEqual(len(decompress(codec, data, 1000)), 1000)

    def test_every_prefix_of_compressed_data_is_refused(self) -> None:
        """Except with snappy's framing, whose blocks stand alone: there it gives fewer whole blocks."""
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

    def test_one_byte_beyond_the_bound_is_refused(self) -> None:
        """The error is not that of damage, and names the setting that a user may raise."""
        for codec in CODECS:
            data = compress(codec, bytes(100_001))
            error = self.assertRaises(WrapperTooLarge, decompress, codec, data, 100_000)
            self.assertEqual((error.setting, error.limit), ("max_decompressed", 100_000))
            self.assertIn("max_decompressed = 100000", str(error))

    def test_a_bomb_allocates_no_more_than_its_bound(self) -> None:
        """100 MB of zeros in a few KB: the bound of 2 MB, with one copy of it, is all that is allocated."""
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

    def test_gzip_in_several_members_is_read(self) -> None:
        """Other tools write it so; the size at its end is that of the last member only."""
        data = gzip.compress(b"a" * 5000) + gzip.compress(b"b" * 10)
        self.assertEqual(decompress("gzip", data, 10_000), b"a" * 5000 + b"b" * 10)

    def test_snappy_is_written_in_xerial_frames(self) -> None:
        """Clients in Java read it with SnappyInputStream, in blocks of 32 KiB."""
        data = compress("snappy", bytes(40_000))
        self.assertEqual(data[:16].hex(), "82534e415050590000000001" + "00000001")
        first = int.from_bytes(data[16:20], "big")
        self.assertEqual(len(bytes(cramjam.snappy.decompress_raw(data[20 : 20 + first]))), 32768)

    def test_snappy_without_frames_is_read(self) -> None:
        """Some clients send a raw block."""
        self.assertEqual(decompress("snappy", bytes(cramjam.snappy.compress_raw(b"abc" * 9)), 27), b"abc" * 9)

    def test_a_snappy_block_with_a_wrong_length_is_refused(self) -> None:
        """The length may be negative, too long, or cut itself."""
        head = compress("snappy", b"")
        for tail in (pack(">i", -1), pack(">i", 5) + b"abc", b"\0\0"):
            self.assertRaises(CorruptMessage, decompress, "snappy", head + tail, 100)

    def test_an_impossible_size_of_snappy_is_damage(self) -> None:
        """So few bytes cannot expand to it: the error is not that of a wrapper too large, which names a setting."""
        self.assertRaises(CorruptMessage, decompress, "snappy", b"\xff\xff\xff\x7f" + bytes(50), 1000)

    def test_an_unknown_codec_is_a_callers_mistake(self) -> None:
        """ValueError, not the error of a damaged message."""
        self.assertRaises(ValueError, compress, "lzma", b"")
        self.assertRaises(ValueError, decompress, "none", b"", 1)
