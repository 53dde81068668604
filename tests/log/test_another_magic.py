"""Tests that every reader of entries knows a magic once it is in the table of layouts."""

from __future__ import annotations

from array import array
from random import Random
from struct import Struct
from unittest import mock
from zlib import crc32

from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.client.consumer.group.entry_boundaries import EntryBoundaries
from logd.client.producer.refusal_text import largest
from logd.errors import InvalidMessage, MessageTooLarge
from logd.log.damage import evidence as resuming
from logd.log.damage.kinds import Damage, DamageKind
from logd.log.damage.walk import SegmentWalk
from logd.log.index.boundaries import Boundaries
from logd.log.scan import read_heads, scan_entries
from logd.protocol import loops
from logd.protocol.checksums import INDEPENDENT_CHECKSUMS
from logd.protocol.entry import LAYOUTS, Buffer, Layout, MessageFields, head_at, head_pattern
from logd.protocol.message import Message
from logd.protocol.wrapper import encode_wrapper
from logd.spark.blocking.rows import Cursor, Rows
from logd.testing.memory.files import MemoryFiles
from tests.log.entries import plain

#: A checksum over all behind it, and a time.
_HEAD = Struct(">iBIq")


def fields(data: bytes, at: int, stop: int) -> MessageFields:
    """Return the fields of an entry."""
    check_fields(data, at, stop)
    return data[at + _HEAD.size : stop], None, _HEAD.unpack_from(data, at)[3], ()


def check_fields(data: Buffer, at: int, stop: int) -> None:
    """Raise ValueError for a field that is wrong."""
    time = _HEAD.unpack_from(data, at)[3]
    if time < 0:
        raise ValueError(f"time {time} is out of range")


TIMED = Layout(
    magic=4,
    minimum=13,
    head_bytes=_HEAD.size,
    checksum_at=5,
    checked_from=9,
    fields=fields,
    check_fields=check_fields,
    time_at=9,
)


def entry(payload: bytes, time: int) -> bytes:
    """Return an entry of the other magic."""
    body = time.to_bytes(8, "big", signed=True) + payload
    return (5 + len(body)).to_bytes(4, "big") + b"\4" + crc32(body).to_bytes(4, "big") + body


LOG = plain(b"hello") + entry(b"a" * 50, 7) + entry(b"b" * 50, 6) + plain(b"world")
STARTS = [0, 14, 14 + 67, 14 + 2 * 67]
MESSAGES = [Message(b"hello"), Message(b"a" * 50, timestamp=7), Message(b"b" * 50, timestamp=6), Message(b"world")]


class AnotherMagicTests(SynchronousTestCase):
    """A magic of one message, for which nothing but the table has to be changed."""

    def setUp(self) -> None:
        """Add the magic to the table."""
        patches = mock.patch.dict(LAYOUTS, {4: TIMED})
        patches.start()
        self.addCleanup(patches.stop)
        self.patch(resuming, "_LOOKS_LIKE_HEAD", head_pattern())

    def walked(self, data: bytes) -> list[Damage]:
        """Return the damages that a walk finds in these bytes, by the other implementation of the checksums."""
        files = MemoryFiles(Random(1), Clock().seconds)
        file = files.open("/log", create=True)
        file.append([data])
        boundaries = Boundaries(positions=array("q", [0]))
        walk = SegmentWalk(file, len(data), len(data), True, boundaries, INDEPENDENT_CHECKSUMS)
        return [damage for damage in walk.run() if damage is not None]

    def test_a_broker_takes_the_new_magic(self) -> None:
        """The check finds the newest time of the set, and refuses wrong entries."""
        self.assertEqual(loops.check_set(LOG, 100)[:2], (4, 7))
        self.assertRaises(MessageTooLarge, loops.check_set, LOG, 57)
        for damaged in (LOG[:30] + b"?" + LOG[31:], LOG[:100], LOG + entry(b"", -2), LOG + b"\0\0\0\14\4" + bytes(20)):
            self.assertRaises(InvalidMessage, loops.check_set, damaged, 100)

    def test_a_consumer_decodes_the_new_magic(self) -> None:
        """Messages and places come up to a wrong entry, inside a wrapper too."""
        decoded = loops.decode_set(LOG, 100)
        self.assertEqual((decoded.messages, decoded.consumed), (MESSAGES, len(LOG)))
        self.assertEqual([message.id for message in decoded.messages], [100 + start for start in STARTS])
        damaged = loops.decode_set(LOG[:30] + b"?" + LOG[31:])
        self.assertEqual((damaged.messages, damaged.position, damaged.error_end), (MESSAGES[:1], 14, STARTS[2]))
        self.assertEqual(loops.decode_set(LOG[:50]).needed, 67)
        self.assertIn("time -2", str(loops.decode_set(entry(b"", -2)).error))
        self.assertEqual(loops.decode_set(encode_wrapper("gzip", LOG)).messages, MESSAGES)
        self.assertIn("time -2", str(loops.decode_set(encode_wrapper("gzip", entry(b"", -2))).error))

    def test_a_group_follows_the_new_magic(self) -> None:
        """A refusal finds the largest entry, too."""
        self.assertEqual(EntryBoundaries(0).passed(LOG), len(LOG))
        self.assertEqual(largest(LOG), (3, 58))

    def test_spark_gets_rows_of_the_new_magic(self) -> None:
        """Workers of Spark decode without Twisted."""
        rows = Rows()
        Cursor(LOG, 0).fill(rows, 100)
        self.assertEqual(rows.values, [message.payload for message in MESSAGES])
        self.assertEqual([each.timestamp for each in rows.messages], [message.timestamp for message in MESSAGES])

    def test_a_recovery_scans_the_new_magic(self) -> None:
        """An entry may be longer than a block, and is found by its time."""
        long = entry(bytes(3 << 20), 9)
        files = MemoryFiles(Random(1), Clock().seconds)
        file = files.open("/log", create=True)
        file.append([LOG + long])
        end = len(LOG + long)
        scan = scan_entries(file, 0, end, 20)
        self.assertEqual((scan.end, scan.entries, scan.highest_ms, scan.problem), (end, 5, 9, ""))
        self.assertEqual(scan.boundaries, [(0, -1), (STARTS[2], 7), (STARTS[3], 7)])
        self.assertEqual([time for _, _, time in read_heads(file, 0, end)], [-1, 7, 6, -1, 9])
        head = head_at(long)
        assert head is not None
        self.assertEqual((head.magic, head.size, head.timestamp), (4, len(long), 9))

    def test_a_walk_accepts_the_new_magic(self) -> None:
        """Sound entries are no damage to it."""
        self.assertEqual(self.walked(LOG), [])

    def test_a_walk_finds_damage_in_the_new_magic(self) -> None:
        """Of the payload, of the length by the entry's own checksum, and of wrong fields."""
        for damaged, kind in (
            (LOG[:40] + b"?" + LOG[41:], DamageKind.PAYLOAD),
            (LOG[:17] + b"\x44" + LOG[18:], DamageKind.LENGTH),
            (LOG[:14] + entry(b"a" * 50, -2) + LOG[14 + 67 :], DamageKind.PAYLOAD),
        ):
            (damage,) = self.walked(damaged)
            self.assertEqual((damage.position, damage.end, damage.kind), (14, STARTS[2], kind))
