"""Tests that the compiled loops and those in Python agree on entries that each break one rule, with sound checksums."""

from __future__ import annotations

from functools import partial
from struct import pack, pack_into
from typing import Any

from logd.protocol.batch import encode_batch
from logd.protocol.entry import encode_gap
from logd.protocol.loops import python
from logd.protocol.message import Message
from logd.protocol.varint import encode_zigzag
from logd.protocol.wrapper import encode_wrapper
from tests.log.entries import batch, plain, wrapped
from tests.protocol.loops.twins import TwinsTestCase, outcome, signed

_TIME = 1320969600000


def z(*numbers: int) -> bytes:
    """Return zigzag varints."""
    return b"".join(map(encode_zigzag, numbers))


def record(body: bytes, size: int | None = None) -> bytes:
    """Return a record of these bytes behind its size, or another one."""
    return z(len(body) if size is None else size) + body


def keyed(attributes: int = 0, time: int = _TIME, key_length: int = 1, rest: bytes = b"k\0value") -> bytes:
    """Return a magic-2 entry with these fields."""
    body = pack(">Bqi", attributes, time, key_length) + rest
    return signed(pack(">iBI", len(body) + 5, 2, 0) + body)


def headed(at: int, layout: str, value: int, data: bytes) -> bytes:
    """Return a batch with another field, under checksums that hold."""
    changed = bytearray(data)
    pack_into(layout, changed, at, value)
    return signed(bytes(changed))


FIRST = record(z(0)[:1] + z(0, 0, -1, 1) + b"a" + z(0))
SECOND = record(b"\0" + z(5, 1, 1) + b"k" + z(2) + b"bb" + z(1, 1) + b"n" + z(1) + b"v")
TWO = batch(FIRST, SECOND, time=_TIME)

#: As many messages as it has bytes, most of them a pad.
MANY = encode_batch([Message(b"")] * 300, "zstd")

#: Bodies of a record behind a sound one, each with something that may be wrong.
BODIES = {
    "sound": b"\0" + z(5, 1, 1) + b"k" + z(2) + b"bb" + z(0),
    "attributes": b"\x7f" + z(5, 1, -1, 2) + b"bb" + z(0),
    "nothing": b"",
    "only attributes": b"\0",
    "a tombstone": b"\0" + z(5, 1, 1) + b"k" + z(-1, 0),
    "no key and value": b"\0" + z(5, 1, -1, -1, 0),
    "an empty key and value": b"\0" + z(5, 1, 0, 0, 0),
    "a time below zero": b"\0" + z(-_TIME - 1, 1, -1, 0, 0),
    "a time far below zero": b"\0" + z(-(1 << 63), 1, -1, 0, 0),
    "a time beyond 64 bits": b"\0" + z((1 << 63) - 1, 1, -1, 0, 0),
    "a number twice": b"\0" + z(5, 0, -1, 0, 0),
    "a number too large": b"\0" + z(5, 2, -1, 0, 0),
    "a number below zero": b"\0" + z(5, -1, -1, 0, 0),
    "a key of -2": b"\0" + z(5, 1, -2, 0, 0),
    "a key too long": b"\0" + z(5, 1, 9, 0, 0),
    "a value of -2": b"\0" + z(5, 1, -1, -2, 0),
    "a value too long": b"\0" + z(5, 1, -1, 9, 0),
    "a value far too long": b"\0" + z(5, 1, -1, 1 << 62, 0),
    "no headers": b"\0" + z(5, 1, -1, 0),
    "headers of -1": b"\0" + z(5, 1, -1, 0, -1),
    "too many headers": b"\0" + z(5, 1, -1, 0, 1),
    "far too many headers": b"\0" + z(5, 1, -1, 0, 1 << 40),
    "a header": b"\0" + z(5, 1, -1, 0, 1, 1) + b"n" + z(0),
    "a header without a value": b"\0" + z(5, 1, -1, 0, 1, 1) + b"n" + z(-1),
    "a header's value of -2": b"\0" + z(5, 1, -1, 0, 1, 1) + b"n" + z(-2),
    "a header's value too long": b"\0" + z(5, 1, -1, 0, 1, 1) + b"n" + z(5),
    "a header's name of -1": b"\0" + z(5, 1, -1, 0, 1, -1, 0),
    "a header's name too long": b"\0" + z(5, 1, -1, 0, 1, 5, 0),
    "a header's name that is not UTF-8": b"\0" + z(5, 1, -1, 0, 1, 1) + b"\xff" + z(0),
    "a header's name in UTF-8": b"\0" + z(5, 1, -1, 0, 1, 2) + "\u00e9".encode() + z(0),
    "bytes behind a header": b"\0" + z(5, 1, -1, 0, 1, 1) + b"n" + z(0, 0),
    "bytes behind": b"\0" + z(5, 1, -1, 0, 0) + b"!",
    "zero headers in two bytes": b"\0" + z(5, 1, -1, 0) + b"\x80\0",
    "numbers in more bytes than they need": b"\0\x8a\0\x82\x80\0\x81\0\x80\x80\x80\0\0",
    "a number of ten bytes": b"\0" + b"\x8a" + b"\x80" * 8 + b"\0" + z(1, -1, 0, 0),
    "a number of eleven bytes": b"\0" + b"\x8a" + b"\x80" * 9 + b"\0" + z(1, -1, 0, 0),
    "a number of 65 bits": b"\0" + b"\xff" * 9 + b"\x03" + z(1, -1, 0, 0),
}
ENTRIES = {
    "plain": plain(b"x"),
    "a plain entry with a wrong checksum": plain(b"x")[:-1] + b"y",
    "keyed": keyed(),
    "a tombstone": keyed(8, rest=b"k\0"),
    "a tombstone with a value": keyed(8),
    "a tombstone with headers": keyed(8, rest=b"k\1\1nv\0"),
    "attributes": keyed(1),
    "a time of -1": keyed(time=-1),
    "a time of -2": keyed(time=-2),
    "no key": keyed(key_length=-1, rest=b"\0v"),
    "a key of -2": keyed(key_length=-2),
    "a key up to the end": keyed(key_length=7),
    "a key beyond the end": keyed(key_length=(1 << 31) - 1),
    "a header": keyed(rest=b"k\1\1n\2vvalue"),
    "a header without a value": keyed(rest=b"k\1\1n\0value"),
    "two headers": keyed(rest=b"k\2\1n\2v\1m\1value"),
    "a header that is too long": keyed(rest=b"k\1\1n\x70v"),
    "a header's name that is too long": keyed(rest=b"k\1\x70n"),
    "a header that is cut": keyed(rest=b"k\1\1n"),
    "too many headers": keyed(rest=b"k\x7f\1n\0"),
    "a header's name that is not UTF-8": keyed(rest=b"k\1\1\xff\0"),
    "a header's name in UTF-8": keyed(rest=b"k\1\2\xc3\xa9\0"),
    "a varint of five bytes": keyed(rest=b"k\x81\x80\x80\x80\0\1n\0v"),
    "a varint of six bytes": keyed(rest=b"k\x81\x80\x80\x80\x80\0\1n\0v"),
    "a varint that is cut": keyed(rest=b"k\x81\x80"),
    "magic 1": wrapped(b"payload", 0xF0),
    "magic 1 with a wrong checksum": wrapped(b"payload")[:-1] + b"?",
    "a wrapper": encode_wrapper("gzip", plain(b"x") * 3),
    "a wrapper of nothing": encode_wrapper("zstd", b""),
    "a wrapper of noise": wrapped(b"payload", 1),
    "a wrapper of noise behind a right begin": wrapped(bytes.fromhex("1f8b08") + b"noise", 1),
    "a wrapper in a wrapper": encode_wrapper("snappy", encode_wrapper("gzip", plain(b"x"))),
    "a batch in a wrapper": encode_wrapper("gzip", plain(b"x") + TWO),
    "a gap": encode_gap(12) + b"xyz",
    "a gap that is longer than the set": encode_gap(1 << 30),
    "a gap with a wrong checksum": encode_gap(12)[:-1] + b"xyz!",
    "magic 4": pack(">iBI", 5, 4, 0),
    **{f"length {size}": pack(">iBI", size, 0, 0) for size in (0, 4, 5, 6, -1, -(1 << 31), (1 << 31) - 1)},
    **{f"magic {magic}, length {size}": pack(">iBI", size, magic, 0) + bytes(80)
       for magic, sizes in {1: (5, 6), 2: (18, 19), 3: (56, 57), 0x7F: (4, 5)}.items() for size in sizes},
    "a batch": TWO,
    "a batch with a wrong checksum": TWO[:-1] + b"?",
    "a batch with a wrong check": TWO[:5] + b"abc" + TWO[8:],
    "Kafka's magic 1": headed(16, ">B", 1, TWO),
    "a leader epoch": headed(12, ">i", 3, TWO),
    **{f"attributes {value:#x}": headed(21, ">H", value, TWO) for value in (1, 4, 5, 7, 8, 0x10, 0x20, 0x8000)},
    **{f"the last number {value}": headed(23, ">i", value, TWO) for value in (0, 2, 40, 1 << 20, -1, -(1 << 31))},
    **{f"{value} messages": headed(57, ">i", value, TWO) for value in (0, 1, 3, -1, 1 << 30)},
    **{f"base time {value}": headed(27, ">q", value, TWO) for value in (-1, -5, (1 << 63) - 6, (1 << 63) - 1)},
    **{f"newest time {value}": headed(35, ">q", value, TWO) for value in (-1, -2, (1 << 63) - 1)},
    "newest time and its attribute": headed(35, ">q", (1 << 63) - 1, headed(21, ">H", 8, TWO)),
    "a producer": headed(43, ">q", 7, TWO),
    "a producer's epoch": headed(51, ">h", 7, TWO),
    "a sequence": headed(53, ">i", 7, TWO),
    **{f"L {value}": headed(8, ">i", value, TWO) for value in (48, 49, 50, len(TWO) - 13, len(TWO) - 11, -1, 1 << 30)},
    "a pad": signed(batch(FIRST, SECOND, time=_TIME, pad=3)),
    "a pad that is not zero": signed(batch(FIRST, SECOND, time=_TIME, pad=3)[:-1] + b"!"),
    "a pad that is needed": MANY,
    "a pad that is needed, and not zero": MANY[:-1] + b"!",
    "a byte behind the records": batch(FIRST, SECOND, b"\0", time=_TIME, messages=2),
    "a record missing": batch(FIRST, SECOND, time=_TIME, messages=3),
    "a record removed": headed(23, ">i", 3, batch(record(b"\0" + z(1, 2, -1, 0, 0)), time=_TIME)),
    "a record too long for the batch": batch(FIRST, record(b"\0" + z(5, 1, -1, 0, 0), 90), time=_TIME),
    "a record of -1": batch(FIRST, record(b"\0" + z(5, 1, -1, 0, 0), -1), time=_TIME),
    "a record of no size": batch(FIRST, b"\x80", time=_TIME),
    **{f"a record with {name}": batch(FIRST, record(body), time=_TIME) for name, body in BODIES.items()},
    **{f"first a record with {name}": batch(record(body), FIRST, time=_TIME) for name, body in BODIES.items()},
}  # fmt: skip
#: The bytes after the entry: none, an entry, and tails that are cut.
TAILS = (
    b"",
    plain(b"behind"),
    b"\0",
    b"\0\0\0\5",
    b"\0\0\0\4",
    b"\0\0\0\5\0",
    plain(b"behind")[:-1],
    encode_gap(50)[:8],
    wrapped(b"behind")[:9],
    keyed()[:13],
    keyed()[:21],
    keyed()[:-1],
    TWO[:35],
    TWO[:60],
    TWO[:-1],
)


def judged(loops: Any, data: bytes) -> list[tuple[int, int]]:
    """Return the entries that scan_set asks about."""
    asked = []

    def readable(view: memoryview, at: int, stop: int) -> str:
        asked.append((at, stop))
        return ""

    loops.scan_set(data, readable=readable)
    return asked


class CasesTests(TwinsTestCase):
    """Each entry, alone and among others."""

    def each(self) -> list[bytes]:
        """Return every entry between others."""
        return [before + entry + tail for entry in ENTRIES.values() for before in (b"", plain(b"p")) for tail in TAILS]

    def test_checks_and_lengths(self) -> None:
        """check_set, scan_set and the walks by lengths."""
        for data in self.each():
            for limits in ((1000,), (7, 1000), (1000, 70), (1000, len(TWO)), (1000, len(TWO) - 1)):
                self.assert_same("check_set", data, *limits)
            self.assertEqual(judged(self.compiled, data), judged(python, data))
            self.assert_same("scan_set", data, newest=5, next_boundary=1, boundary_bytes=10)
            for name in ("scan_set", "heads_of_set", "ends_of_set", "columns_of_set"):
                self.assert_same(name, data)

    def test_columns(self) -> None:
        """columns_of_set, whole and in slices of any size."""
        for data in self.each():
            self.assert_columns_alike(data)
            for limit in (1, 2):
                self.assert_columns_alike(data, limit=limit)
            for limit_bytes in (1, 10, 75, 100):
                self.assert_columns_alike(data, limit_bytes=limit_bytes)
            self.assert_columns_alike(data, include_values=False)
            self.assert_columns_alike(data, max_decompressed_messages=1)

    def test_decoding(self) -> None:
        """decode_set, whole and in slices of any size."""
        for data in self.each():
            self.assert_decoded_alike(data)
            for limit in (1, 2):
                self.assert_decoded_alike(data, limit=limit)
            for limit_bytes in (0, 10, 75, 100):
                self.assert_decoded_alike(data, limit_bytes=limit_bytes)
            self.assert_decoded_alike(data, start_at=25)
            self.assert_decoded_alike(data, max_decompressed_messages=1)

    def test_messages(self) -> None:
        """Both implementations encode the same, all fields at their limits."""
        times = (None, 0, 1, 63, 64, (1 << 63) - 1)
        keys = (None, b"", b"k" * 63, b"k" * 64, b"k" * 9000)
        for headers in ((), [("", None)], [("n" * 64, b""), ("\u20ac", b"v" * 8200)]):
            messages = [Message(b"v" * size, key=key, timestamp=time, headers=headers)
                        for key in keys for time in times for size in (0, 1, 8191)]  # fmt: skip
            for given in (messages, messages[::-1], tuple(messages), messages[:1], [], ()):
                self.assertEqual(self.compiled.encode_set(given), python.encode_set(given))
                self.assertEqual(self.compiled.encode_records(given), python.encode_records(given))
        many = [Message(b"")] * 9000
        self.assertEqual(self.compiled.encode_records(many), python.encode_records(many))

    def test_the_cases_are_as_different_as_they_say(self) -> None:
        """Most are refused with words of their own, and many are read nevertheless."""
        texts = {str(outcome(partial(python.check_set, entry, 1000))) for entry in ENTRIES.values()}
        self.assertGreater(len(texts), 50)
        read = [name for name, entry in ENTRIES.items() if python.decode_set(entry).error is None]
        self.assertGreater(len(read), 40)
