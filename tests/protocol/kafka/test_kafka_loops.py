"""Tests of the loops that make answers for clients of Kafka; kafka-python reads what they make."""

from __future__ import annotations

from typing import Any

from kafka.record import MemoryRecords

from logd.protocol.kafka.wire_batches import encode_wire_batch
from logd.protocol.message import Message
from logd.protocol.message_set import wrap
from tests.log.entries import batch, gap, plain, record, timed, wrapped
from tests.protocol.loops.implementations import LoopsTestCase, on_each_implementation
from tests.protocol.loops.twins import signed

BATCHES = [batch(record(b"a"), record(b"b", 1)), batch(record(b"c"), codec=4), batch(record(b"d"), pad=30)]
RUN = BATCHES[0] + gap(20) + BATCHES[1] + BATCHES[2] + gap(9)
#: Bytes on the wire: without gaps and pads.
SIZES = [len(BATCHES[0]), len(BATCHES[1]), len(BATCHES[2]) - 30]


@on_each_implementation
class RunTests(LoopsTestCase):
    """Runs of batches."""

    def test_a_run_is_found_whole(self) -> None:
        """Up to what is no batch; the last gap is passed, but no part of the run."""
        for behind in (b"", plain(b"x"), wrapped(b"x"), BATCHES[0][:-1], BATCHES[0][:30], gap(40)[:8], b"\xff" * 50):
            data = b"##" + RUN + behind
            found = self.loops.find_batches(memoryview(data), 2)
            self.assertEqual(found, (2 + len(RUN), 2 + len(RUN) - 9, sum(SIZES)))
        self.assertEqual(self.loops.find_batches(plain(b"x")), (0, 0, 0))

    def test_bounds(self) -> None:
        """Bytes on the wire, the size of an entry, and codecs."""
        first, second = len(BATCHES[0]), len(BATCHES[0]) + 20 + len(BATCHES[1])
        for most, end in ((sum(SIZES) - 1, second), (SIZES[0] + SIZES[1] - 1, first), (SIZES[0] - 1, 0)):
            self.assertEqual(self.loops.find_batches(RUN, most_bytes=most).end, end)
        self.assertEqual(self.loops.find_batches(RUN, largest=len(BATCHES[2]) - 1).end, second)
        self.assertEqual(self.loops.find_batches(RUN, codecs=0b01111).end, first)

    def test_damage_ends_a_run(self) -> None:
        """In a head always, in the records only when they are verified."""
        at = len(BATCHES[0]) + 20
        for place in (0, 5, 8, 14, 16):
            damaged = RUN[: at + place] + bytes((RUN[at + place] ^ 1,)) + RUN[at + place + 1 :]
            self.assertEqual(self.loops.find_batches(damaged).end, len(BATCHES[0]), place)
        damaged = RUN[: at + 61] + b"?" + RUN[at + 62 :]
        self.assertEqual(self.loops.find_batches(damaged).wire_bytes, sum(SIZES))
        self.assertEqual(self.loops.find_batches(damaged, verify=True).end, len(BATCHES[0]))

    def test_the_wire(self) -> None:
        """Base offsets lead to the ends of the entries; what is no run is refused."""
        wire = self.loops.wire_of_run(RUN, 1000)
        self.assertEqual(len(wire), sum(SIZES))
        records = MemoryRecords(wire[: SIZES[0]] + wire[-SIZES[2] :])
        found = [(each.offset, each.value) for each in records.next_batch()]
        self.assertEqual(found, [(998 + len(BATCHES[0]), b"a"), (999 + len(BATCHES[0]), b"b")])
        self.assertEqual([each.offset for each in records.next_batch()], [1000 + len(RUN) - 9 - 1])
        for bad in (RUN[:-1], RUN + b"\0", RUN + plain(b"x"), plain(b"x") + RUN, RUN[1:], RUN + BATCHES[0][:50]):
            with self.assertRaises(ValueError):
                self.loops.wire_of_run(bad, 1000)


@on_each_implementation
class RecordTests(LoopsTestCase):
    """Entries as records."""

    def read(self, made: Any, base: int) -> list[tuple[int, Any, Any, int, Any]]:
        """Return offset, key, value, time and headers of each record, as kafka-python reads them."""
        data = encode_wire_batch(made.records, made.messages, base, 1000, made.base_time, made.max_time)
        found = MemoryRecords(data).next_batch()
        return [(each.offset, each.key, each.value, each.timestamp, each.headers) for each in found]

    def test_messages(self) -> None:
        """Keys, times, headers and no values; the offset is the last position of the entry."""
        messages = [
            Message(b"plain"),
            Message(b"v" * 300, key=b"k", timestamp=5, headers=[("name", b"x" * 100), ("none", None), ("é", b"")]),
            Message(None, key=b"", timestamp=3),
            Message(b"", timestamp=9),
        ]
        entries = [self.loops.encode_set([message]) for message in messages] + [wrapped(b"old")]
        data = b"".join(entries)
        made = self.loops.records_of_set(data, 100, 90)
        self.assertEqual((made.consumed, made.messages, made.base_time, made.max_time), (len(data), 5, -1, 9))
        ends = [100 + len(b"".join(entries[: number + 1])) - 1 for number in range(5)]
        headers = [("name", b"x" * 100), ("none", None), ("é", b"")]
        self.assertEqual(
            self.read(made, 90),
            [
                (ends[0], None, b"plain", -1, []),
                (ends[1], b"k", b"v" * 300, 5, headers),
                (ends[2], b"", None, 3, []),
                (ends[3], None, b"", 9, []),
                (ends[4], None, b"old", -1, []),
            ],
        )

    def test_bounds(self) -> None:
        """The positions and the number of entries, and the offsets that a batch can hold."""
        data = timed(b"a", 7) + plain(b"b") * 3
        size, first = len(plain(b"b")), len(timed(b"a", 7))
        for bounds, consumed in (
            ({}, len(data)),
            ({"until": first}, first),
            ({"until": first + 1}, first + size),
            ({"limit": 2}, first + size),
            ({"limit": 0}, 0),
            ({"begin": first, "limit": 1}, first + size),
        ):
            self.assertEqual(self.loops.records_of_set(data, 0, 0, **bounds).consumed, consumed)
        self.assertEqual(self.loops.records_of_set(data, 0, first).messages, 0)
        self.assertEqual(self.loops.records_of_set(data, 1 << 31, first).messages, 1)
        self.assertEqual(self.loops.records_of_set(data, 1 << 31, 0).messages, 0)
        self.assertEqual(self.loops.records_of_set(data, 0, 0, begin=0)[3:], (7, 7))

    def test_what_ends_the_records(self) -> None:
        """Other kinds, damage and what is cut off."""
        sound = plain(b"a")
        keyed = timed(b"b", 5)
        for behind in (
            BATCHES[0],
            gap(20),
            wrap([Message(b"x")], "gzip"),
            sound[:-1],
            sound[:-1] + b"?",
            keyed[:-1] + b"?",
            signed(keyed[:9] + b"\4" + keyed[10:]),
            b"\0\0\0\4\0" + bytes(9),
            b"\0\0\0\5\5" + bytes(9),
            b"\xff" * 20,
        ):
            made = self.loops.records_of_set(sound + behind, 0, 0)
            self.assertEqual((made.consumed, made.messages), (len(sound), 1), behind)
