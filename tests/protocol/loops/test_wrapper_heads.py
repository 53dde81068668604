"""Tests of check_set on wrappers: only compressed bytes that cannot be of their codec are refused."""

from __future__ import annotations

import zlib
from struct import pack

import cramjam
from hypothesis import given, settings
from hypothesis import strategies as st

from logd.errors import InvalidMessage
from logd.protocol.checksums import crc32
from logd.protocol.message import Message
from logd.protocol.wrapper import encode_wrapper
from tests.protocol.loops.implementations import LoopsTestCase, on_each_implementation, properties

HELLO_0 = bytes.fromhex("0000000a 00 3610a686 68656c6c6f")
HELLO_1 = bytes.fromhex("0000000b 01 00 3610a686 68656c6c6f")
KEYED = bytes.fromhex("00000025029c98463600000001338fec7c00000000016b0106736572766572057765623168656c6c6f")


def wrapper(attributes: int, payload: bytes) -> bytes:
    """Return a magic-1 entry with any payload."""
    return pack(">iBBI", 6 + len(payload), 1, attributes, crc32(payload)) + payload


@on_each_implementation
class CodecTests(LoopsTestCase):
    """The first compressed bytes of wrappers, against the codec that their attributes claim."""

    def test_bytes_of_each_codec_are_accepted(self) -> None:
        """Also of an empty set, raw snappy, and zstd behind a frame to skip."""
        for inner in (b"", HELLO_0, HELLO_0 * 1000, KEYED * 3):
            for codec in ("gzip", "snappy", "zstd"):
                self.assertEqual(self.loops.check_set(encode_wrapper(codec, inner), 1_000_000), (1, -1))
            raw = wrapper(2, bytes(cramjam.snappy.compress_raw(inner)))
            self.assertEqual(self.loops.check_set(raw, 1_000_000), (1, -1))
        skippable = bytes.fromhex("502a4d18 02000000 abcd") + bytes(cramjam.zstd.compress(HELLO_0))
        self.assertEqual(self.loops.decode_set(wrapper(3, skippable)).messages, [Message(b"hello")])
        self.assertEqual(self.loops.check_set(wrapper(3, skippable), 1000), (1, -1))

    @given(st.lists(st.binary(max_size=300), min_size=1, max_size=60))
    @settings(properties, max_examples=200)
    def test_raw_snappy_is_never_refused(self, payloads: list[bytes]) -> None:
        """It has no magic number, so that few first bytes can be excluded."""
        block = bytes(cramjam.snappy.compress_raw(self.loops.encode_set([Message(payload) for payload in payloads])))
        self.assertEqual(self.loops.check_set(wrapper(2, block), 1_000_000), (1, -1))

    def test_bytes_of_another_codec_are_refused(self) -> None:
        """Consumers could not read such a wrapper; the error names the place, the codec and the bytes."""
        for number, codec in ((1, "gzip"), (2, "snappy"), (3, "zstd")):
            others = [encode_wrapper(other, HELLO_0)[10:] for other in ("gzip", "snappy", "zstd") if other != codec]
            for payload in (HELLO_0, HELLO_1, b"hello", b"plain text", zlib.compress(HELLO_0), b"", b"\x1f", *others):
                data = HELLO_0 + wrapper(number, payload)
                error = self.assertRaises(InvalidMessage, self.loops.check_set, data, 1000)
                self.assertIn(f"entry at byte 14 of a set of {24 + len(payload)} bytes", str(error))
                self.assertIn(f"attributes say {codec}", str(error))
                self.assertIn(payload[:8].hex() or "nothing", str(error))

    def test_the_upper_bits_of_attributes_mean_nothing(self) -> None:
        """As in 0.7; without a codec in the lower bits any payload is accepted."""
        self.assertRaises(InvalidMessage, self.loops.check_set, wrapper(0xF1, b"hello"), 1000)
        self.assertEqual(self.loops.check_set(wrapper(0xF1, encode_wrapper("gzip", HELLO_0)[10:]), 1000), (1, -1))
        self.assertEqual(self.loops.check_set(wrapper(0xFC, b"hello"), 1000), (1, -1))
