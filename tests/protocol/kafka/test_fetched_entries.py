"""Tests of logd.protocol.kafka: batches between the wire and the log, and other entries as batches.

kafka-python's reader of record batches is the second opinion.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafka.record import MemoryRecords, MemoryRecordsBuilder
from twisted.trial.unittest import SynchronousTestCase

from logd.protocol import loops
from logd.protocol.batch import encode_batch
from logd.protocol.entry import encode_gap
from logd.protocol.kafka.answer_bounds import AnswerBounds
from logd.protocol.kafka.fetched_entries import MOST_DELTA, MOST_LEFT_OUT, FetchedEntries
from logd.protocol.kafka.wire_batches import entry_of_wire_batch, wire_batch_end
from logd.protocol.message import Message
from logd.protocol.wrapper import encode_wrapper

#: docs/protocol.md has these vectors: a batch at position 1000, and its first bytes on Kafka's wire.
BATCH = bytes.fromhex(
    "00000052034ee6e50000004affffffff028a6344fa00000000000100000133"
    "8fec7c00000001338fec7c05ffffffffffffffffffffffffffff00000002"
    "18000000026b0a68656c6c6f0016000a02010a776f726c6400"
)
WIRE = bytes.fromhex("000000000000043c") + BATCH[8:]


def gap(size: int) -> bytes:
    """Return a gap of ``size`` bytes."""
    return encode_gap(size).ljust(size, b"\0")


def read(pieces: Sequence[bytes | memoryview]) -> list[tuple[int, Any, Any, int]]:
    """Return offset, key, value and time of each record, as kafka-python reads them."""
    found = []
    records = MemoryRecords(b"".join(pieces))
    while (batch := records.next_batch()) is not None:
        assert batch.validate_crc()
        found += [(each.offset, each.key, each.value, each.timestamp) for each in batch]
    return found


def converted(data: bytes, position: int = 0) -> FetchedEntries:
    """Return converted entries."""
    entries = FetchedEntries(position)
    entries.convert(data, position)
    entries.finish()
    return entries


def sent(entries: FetchedEntries) -> list[bytes]:
    """Return the batches, all of which are here."""
    return [piece for piece in entries.pieces if isinstance(piece, bytes)]


def offsets_of(data: bytes, position: int = 0) -> list[int]:
    """Return the offsets by the rule of docs/protocol.md: the last position of each message."""
    return [message.next_position - 1 for message in loops.decode_set(data, position).messages]


class WireBatchTests(SynchronousTestCase):
    """A batch as clients of Kafka send it."""

    def test_the_documented_vector(self) -> None:
        """A stored batch is sent with other eight bytes, and comes back as it was."""
        self.assertEqual(b"".join(sent(converted(BATCH, 1000))), WIRE)
        self.assertEqual(read([WIRE]), [(1084, b"k", b"hello", 1320969600000), (1085, None, b"world", 1320969600005)])
        self.assertEqual(entry_of_wire_batch(b"xx" + WIRE + b"yy", 2, wire_batch_end(WIRE, 0, len(WIRE)) + 2), BATCH)

    def test_batches_of_another_client(self) -> None:
        """A batch of kafka-python's is an entry that all readers take, and leaves as it came but for its offsets."""
        for codec in (0, 1):  # kafka-python needs further packages for the others
            builder = MemoryRecordsBuilder(magic=2, compression_type=codec, batch_size=1 << 20)
            for number in range(300):
                builder.append(timestamp=1000 + number, key=b"k", value=b"v%d" % number, headers=[("h", b"x")])
            builder.close()
            wire = builder.buffer()
            wire = wire if isinstance(wire, bytes) else bytes(wire)
            entry = entry_of_wire_batch(wire, 0, wire_batch_end(wire, 0, len(wire)))
            # Stored batches are those of no idempotent producer, as this one is.
            self.assertEqual(loops.check_set(entry, 1 << 20, 1 << 20).messages, 300)
            decoded = loops.decode_set(entry, 5000)
            self.assertEqual([each.payload for each in decoded.messages], [b"v%d" % number for number in range(300)])
            again = read(sent(converted(entry, 5000)))
            self.assertEqual([each[0] for each in again], offsets_of(entry, 5000))
            found = b"".join(sent(converted(entry, 5000)))
            self.assertEqual((found[8:12], found[12:16], found[16:]), (wire[8:12], b"\xff" * 4, wire[16:]))

    def test_a_pad(self) -> None:
        """A batch with more messages than bytes is padded, so that each has a position; the pad is not sent."""
        messages = [Message(b"a" * 10)] * 5000
        entry = encode_batch(messages, "zstd")
        self.assertEqual(len(entry), 5000)
        wire = b"".join(sent(converted(entry, 7)))
        self.assertLess(len(wire), len(entry))
        self.assertEqual(entry_of_wire_batch(wire, 0, len(wire)), entry)
        batch = MemoryRecords(wire).next_batch()
        self.assertEqual((batch.base_offset, batch.last_offset_delta), (7, 4999))

    def test_what_is_no_batch(self) -> None:
        """Batches that are cut off, of another magic, or of impossible numbers."""
        for wire, words in (
            (WIRE[:60], "60 bytes"),
            (WIRE[:-1], "86 bytes in 85"),
            (WIRE[:8] + b"\x7f" + WIRE[9:], "in 86"),
            (WIRE[:8] + b"\xff" + WIRE[9:], "in 86"),
            (WIRE[:8] + b"\0\0\0\x30" + WIRE[12:], "60 bytes in 86"),
            (WIRE[:16] + b"\1" + WIRE[17:], "magic 1"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                wire_batch_end(wire, 0, len(wire))
        for number in (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff"):
            with self.assertRaisesRegex(ValueError, "last message has number"):
                entry_of_wire_batch(WIRE[:23] + number + WIRE[27:], 0, len(WIRE))


class FetchedEntriesTests(SynchronousTestCase):
    """Entries of all kinds on their way to a client."""

    def test_messages_without_batches(self) -> None:
        """Plain and keyed messages and wrappers become batches with the offsets that they have."""
        plain = loops.encode_set([Message(b"plain")])
        keyed = loops.encode_set([Message(b"v", key=b"k", timestamp=5, headers=(("h", b"x"), ("n", None)))])
        none = loops.encode_set([Message(None, key=b"gone", timestamp=9)])
        wrapper = encode_wrapper("gzip", loops.encode_set([Message(b"w%d" % number) for number in range(3)]))
        data = plain + keyed + none + wrapper + plain
        entries = converted(data, 100)
        found = read(sent(entries))
        self.assertEqual([each[0] for each in found], offsets_of(data, 100))
        self.assertEqual([each[2] for each in found], [b"plain", b"v", None, b"w0", b"w1", b"w2", b"plain"])
        self.assertEqual([each[1] for each in found], [None, b"k", b"gone", None, None, None, None])
        self.assertEqual([each[3] for each in found], [-1, 5, 9, -1, -1, -1, -1])
        self.assertEqual((entries.next_position, entries.needed, entries.damaged_at), (100 + len(data), 0, -1))
        self.assertEqual(entries.size, len(b"".join(sent(entries))))

    def test_batches_tile_the_positions(self) -> None:
        """Each batch begins where the one before it ends, through gaps, so that no client waits in a hole."""
        plain = loops.encode_set([Message(b"plain")] * 3)
        data = gap(20) + plain + gap(9) + BATCH + gap(30) + plain + gap(11)
        entries = converted(data, 1000)
        ends = [1000]
        records = MemoryRecords(b"".join(sent(entries)))
        while (batch := records.next_batch()) is not None:
            self.assertGreaterEqual(batch.base_offset, ends[-1])
            ends.append(batch.base_offset + batch.last_offset_delta + 1)
        # The batch of the log keeps its own first offset; those that are made here begin where the last one ended.
        self.assertEqual(ends, [1000, 1000 + 20 + len(plain) + 9, 1000 + 29 + len(plain) + 86, 1000 + len(data)])
        self.assertEqual(entries.next_position, 1000 + len(data))

    def test_nothing_but_a_hole(self) -> None:
        """A batch without messages moves the client over it."""
        entries = converted(gap(500) + gap(9), 40)
        (batch,) = sent(entries)
        self.assertEqual((read([batch]), entries.next_position), ([], 549))
        header = MemoryRecords(bytes(batch)).next_batch()
        self.assertEqual((header.base_offset, header.last_offset_delta), (40, 508))

    def test_a_hole_that_no_batch_reaches_over(self) -> None:
        """A batch ends before it, and the next begins behind it."""
        entries = FetchedEntries(0)
        entries.convert(loops.encode_set([Message(b"far")]), 1 << 40)
        self.assertEqual([each[0] for each in read(sent(entries))], [(1 << 40) + 12 - 1])
        self.assertLess(MOST_DELTA, 1 << 40)

    def test_data_that_end_inside_an_entry(self) -> None:
        """Only whole entries are sent, and the size of the one that is cut off is told."""
        plain = loops.encode_set([Message(b"plain")])
        for first in (plain, BATCH):
            data = BATCH + first
            for stop in range(len(BATCH), len(data)):
                entries = converted(data[:stop], 1000)
                self.assertEqual(b"".join(sent(entries)), WIRE)
                self.assertEqual(entries.needed, len(first) if stop >= len(BATCH) + 4 else 0)
                self.assertEqual((entries.next_position, entries.damaged_at), (1086, -1))

    def test_damaged_entries(self) -> None:
        """The conversion ends before them, and goes on behind them once it is told where that is."""
        plain = loops.encode_set([Message(b"plain")])
        for bad in (
            plain[:-1] + b"X",
            BATCH[:5] + b"\0" + BATCH[6:],
            gap(50)[:8] + b"\0" + bytes(41),
            b"\0\0\0\x07\x55" + bytes(6),
            b"\xff\xff\xff\xff\0" + bytes(20),
        ):
            data = plain + bad + plain
            entries = FetchedEntries(0)
            entries.convert(data, 0)
            self.assertEqual((len(read(sent(entries))), entries.damaged_at), (1, len(plain)))
            behind = len(plain) + len(bad)
            entries.convert(data[behind:], behind)
            self.assertEqual([each[0] for each in read(sent(entries))], [len(plain) - 1, len(data) - 1])
            self.assertEqual((entries.next_position, entries.damaged_at), (len(data), -1))

    def test_wrappers_that_are_left_out(self) -> None:
        """Fewer bytes than messages, so that no offset can number them; or more than the bounds allow."""
        wrapper = encode_wrapper("gzip", loops.encode_set([Message(b"x")] * 200))
        large = encode_wrapper("gzip", loops.encode_set([Message(b"x" * 5000)]))
        self.assertLess(len(wrapper), 200)
        plain = loops.encode_set([Message(b"plain")])
        for each, reason in ((wrapper, f"more messages than its {len(wrapper)} bytes"), (large, "max")):
            data = plain + each + plain
            entries = FetchedEntries(0, AnswerBounds(4000, 300))
            entries.convert(data, 0)
            self.assertEqual([found[2] for found in read(sent(entries))], [b"plain"] * 2)
            ((place, why),) = entries.left_out
            self.assertEqual((place, entries.next_position), (len(plain), len(data)))
            self.assertIn(reason, why)

    def test_wrappers_that_become_large_are_left_to_a_thread(self) -> None:
        """Whatever their own size: to decompress them takes too long for a turn of the reactor."""
        small = encode_wrapper("gzip", loops.encode_set([Message(b"small")]))
        for message_set in ([Message(b"")] * 20_000, [Message(bytes(50_000))] * 10):
            large = encode_wrapper("zstd", loops.encode_set(message_set))
            self.assertLess(len(large), 1000)
            entries = FetchedEntries(0, AnswerBounds(inline=True))
            entries.convert(small + large, 0)
            self.assertEqual((entries.is_heavy, entries.position, entries.left_out), (True, len(small), []))
            self.assertEqual([found[2] for found in read(sent(entries))], [b"small"])

    def test_a_wrapper_with_more_messages_than_bytes_is_not_read_to_its_end(self) -> None:
        """A few hundred bytes can hold a million messages, whose check takes a second: so it is left out before."""
        some, wrong = loops.encode_set([Message(b"")] * 20_000), b"\0\0\0\5\0\1\2\3\4"
        entries = converted(encode_wrapper("zstd", some + wrong))
        self.assertEqual((len(entries.left_out), entries.damaged_at), (1, -1))

    def test_an_answer_ends_behind_many_wrappers_that_are_left_out(self) -> None:
        """A client would not wait for all of them: it is moved over some, and asks for what follows."""
        wrapper = encode_wrapper("gzip", loops.encode_set([Message(b"x")] * 200))
        data = wrapper * 2 * MOST_LEFT_OUT
        entries = converted(data)
        self.assertEqual((len(entries.left_out), entries.full), (MOST_LEFT_OUT, True))
        self.assertEqual((read(sent(entries)), entries.next_position), ([], MOST_LEFT_OUT * len(wrapper)))
        old = FetchedEntries(0, AnswerBounds(magic=1))
        old.convert(data, 0)
        self.assertEqual((len(old.left_out), old.position), (2 * MOST_LEFT_OUT, len(data)))

    def test_many_messages(self) -> None:
        """They become several batches."""
        data = loops.encode_set([Message(b"%d" % number) for number in range(25_000)])
        entries = converted(data, 3)
        found = read(sent(entries))
        self.assertEqual([each[0] for each in found], offsets_of(data, 3))
        self.assertGreater(len(sent(entries)), 1)
