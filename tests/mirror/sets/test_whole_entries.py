"""Tests of logd.mirror.sets.whole_entries: what of a log's bytes is sent to another log."""

from __future__ import annotations

from collections.abc import Iterator
from struct import pack_into, unpack_from

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import CorruptMessage, WrapperTooLarge
from logd.log.epochs.mark import EpochMark, encode_epoch_mark
from logd.mirror.sets import whole_entries
from logd.mirror.sets.whole_entries import MovingSet, WholeEntries, ready_to_send
from logd.protocol import loops
from logd.protocol.batch import encode_batch
from logd.protocol.batch_layout import BATCH_FIELDS_AT, batch_start, with_leader_epoch
from logd.protocol.checksums import crc32c
from logd.protocol.entry import encode_gap
from logd.protocol.message import Message
from logd.protocol.message_set import wrap
from logd.protocol.slices import Steps, result_of

MESSAGES = [Message(b"one"), Message(b"two", key=b"k", timestamp=5), Message(b"three")]
GAP = encode_gap(30) + bytes(21)
#: The place of the producer id, epoch and sequence of a batch, 14 bytes (contract of docs/protocol.md).
PRODUCER_AT = 43


def of_idempotent_producer(batch: bytes) -> bytes:
    """Return a batch with a producer id, epoch and sequence, and the checksum for them."""
    data = bytearray(batch)
    pack_into(">qhi", data, PRODUCER_AT, 7, 1, 100)
    pack_into(">I", data, BATCH_FIELDS_AT - 4, crc32c(bytes(data[BATCH_FIELDS_AT:])))
    return bytes(data)


class ReadyEntries(WholeEntries):
    """WholeEntries that are made ready to be sent at once."""

    def ready(self, position: int, data: bytes | memoryview, visible_end: int = -1) -> MovingSet:
        """Take a piece."""
        return result_of(ready_to_send(self.take(position, data, visible_end)))


class WholeEntriesTests(SynchronousTestCase):
    """``WholeEntries.take`` and ``ready_to_send``."""

    def test_pieces_cut_anywhere_give_the_same_bytes(self) -> None:
        """Each entry is sent once, whole, and the positions follow one another."""
        data = loops.encode_set(MESSAGES) + wrap(MESSAGES[:1], "gzip") + encode_batch(MESSAGES)
        for size in range(1, len(data) + 1):
            entries = ReadyEntries()
            found, at = b"", 100
            for begin in range(0, len(data), size):
                moving = entries.ready(100 + begin, data[begin : begin + size])
                self.assertEqual(moving.start, at)
                self.assertEqual(moving.end - moving.start, len(moving.data))
                found, at = found + moving.data, moving.end
            self.assertEqual((found, at), (data, 100 + len(data)))

    def test_a_length_that_leads_beyond_the_end_of_the_log_is_damage(self) -> None:
        """The bytes that it announces will never come, so to wait for them would hold the mirror up in silence."""
        whole = loops.encode_set(MESSAGES)
        (*_, last, end) = loops.ends_of_set(whole)
        data = b"".join((whole[:last], (5000).to_bytes(4, "big"), whole[last + 4 :]))
        for size in (len(data), 7, 1):
            entries = ReadyEntries()
            begins = range(0, len(data), size)
            for begin in begins[:-1]:
                entries.ready(100 + begin, data[begin : begin + size], 100 + end)
            begin = begins[-1]
            wrong = self.assertRaises(CorruptMessage, entries.ready, 100 + begin, data[begin:], 100 + end)
            self.assertIn(f"leads beyond the log's end at {100 + end}", str(wrong))
            self.assertEqual(wrong.position, 100 + last)
        entries = ReadyEntries()
        entries.ready(100, data[:-1], 100 + end)  # the rest of what is visible is still to come
        entries = ReadyEntries()
        self.assertRaises(CorruptMessage, entries.ready, 100, encode_gap(1 << 30), 109)

    def test_gaps_are_left_out_also_where_a_piece_cuts_them(self) -> None:
        """Of a gap that is cut nothing is kept, however long it is."""
        data = loops.encode_set(MESSAGES[:1]) + GAP + loops.encode_set(MESSAGES[1:])
        for size in range(1, len(data) + 1):
            entries = ReadyEntries()
            pieces = [entries.ready(begin, data[begin : begin + size]) for begin in range(0, len(data), size)]
            self.assertEqual(b"".join(piece.data for piece in pieces), loops.encode_set(MESSAGES))
            self.assertEqual(pieces[-1].end, len(data))
        entries = ReadyEntries()
        entries.ready(0, encode_gap(1 << 30))
        self.assertEqual(entries.ready(9, bytes(1 << 20)).data, b"")
        self.assertEqual(entries.ready(1 << 30, loops.encode_set(MESSAGES)).messages, 3)

    def test_the_marks_of_leader_epochs_are_left_out(self) -> None:
        """Brokers alone write them: the target refuses them from a producer. One that is damaged is damage."""
        mark, message = encode_epoch_mark(EpochMark(3, 1)), loops.encode_set(MESSAGES[:1])
        data = mark + message + mark + mark + message
        for size in range(1, len(data) + 1):
            entries = ReadyEntries()
            pieces = [entries.ready(begin, data[begin : begin + size]) for begin in range(0, len(data), size)]
            self.assertEqual(b"".join(piece.data for piece in pieces), message * 2)
            self.assertEqual(sum(piece.messages for piece in pieces), 2)
            self.assertEqual((pieces[-1].end, pieces[-1].boundary), (len(data), len(data)))
        damaged = message + mark[:-1] + b"\1"
        error = self.assertRaises(CorruptMessage, ReadyEntries().ready, 0, damaged)
        self.assertEqual(error.position, len(message))

    def test_a_batch_loses_its_producer_and_nothing_else(self) -> None:
        """The leader epoch stays too: the target's broker writes its own."""
        batch = with_leader_epoch(encode_batch(MESSAGES, "zstd"), 3)
        moving = ReadyEntries().ready(0, of_idempotent_producer(batch) + loops.encode_set(MESSAGES))
        self.assertEqual(moving.data, batch + loops.encode_set(MESSAGES))
        self.assertEqual((moving.messages, moving.newest), (6, 5))

    def test_damage_is_never_sent(self) -> None:
        """Its position is told; what is before it is not sent either, and is read again."""
        data = loops.encode_set(MESSAGES)
        for at in (len(data) - 1, 4):  # a payload, a magic
            damaged = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
            error = self.assertRaises(CorruptMessage, ReadyEntries().ready, 1000, damaged)
            self.assertGreaterEqual(error.position, 1000)
        self.assertRaises(CorruptMessage, ReadyEntries().ready, 0, b"\x7f\xff\xff\xff\x00aaaaaaaa")
        self.assertRaises(CorruptMessage, ReadyEntries().ready, 0, bytes(20))

    def test_long_pieces_are_cut_at_the_same_places(self) -> None:
        """The entries far before a piece's end are passed at once; an invalid length among them is damage."""
        data = loops.encode_set(MESSAGES * 20) + encode_batch(MESSAGES)
        for tail in (1, 7, 40, 200):
            self.patch(whole_entries, "TAIL_BYTES", tail)
            for size in range(1, len(data) + 1, 3):
                entries = ReadyEntries()
                pieces = [entries.ready(begin, data[begin : begin + size]) for begin in range(0, len(data), size)]
                self.assertEqual(b"".join(piece.data for piece in pieces), data)
            for invalid in (bytes(4), b"\0\0\0\1", b"\xff\xff\xff\xff"):
                damaged = data[: len(loops.encode_set(MESSAGES))] + invalid + data
                self.assertRaises(CorruptMessage, ReadyEntries().ready, 0, damaged)

    def test_the_boundary_is_never_inside_an_entry(self) -> None:
        """If a piece ends inside a gap, the positions go on, but a reader could not."""
        parts = [loops.encode_set(MESSAGES[:1]), GAP, encode_batch(MESSAGES), GAP]
        data = b"".join(parts)
        ends = {sum(map(len, parts[:number])) for number in range(1, 5)}
        for size in range(1, len(data) + 1):
            entries = ReadyEntries()
            for begin in range(0, len(data), size):
                boundary = entries.ready(begin, memoryview(data)[begin : begin + size]).boundary
                passed = [end for end in ends if end <= begin + size]
                self.assertEqual(boundary, max(passed, default=-1), (size, begin))
        self.assertEqual(entries.ready(10_000, parts[0][:5]).boundary, -1)

    def test_a_jump_begins_anew(self) -> None:
        """The beginning of an entry whose end is gone is forgotten."""
        data = loops.encode_set(MESSAGES)
        entries = ReadyEntries()
        entries.ready(0, data[:-1])
        self.assertEqual(entries.ready(500, data).data, data)

    def test_long_pieces_with_a_change_are_made_ready_in_steps(self) -> None:
        """Each entry is looked at: two mebibytes of small ones took a second. The result is the same."""
        message = loops.encode_set(MESSAGES)
        batch = encode_batch(MESSAGES)
        data = (message * 300 + GAP + of_idempotent_producer(batch)) * 3 + message
        entries = WholeEntries().take(1000, data)
        steps = ready_to_send(entries)
        moved: list[MovingSet] = []
        count = sum(1 for _ in _noting(steps, moved))
        self.assertGreater(count, len(MESSAGES) * 900 // whole_entries.STEP_ENTRIES - 1)
        self.assertEqual(moved[0].data, (message * 300 + batch) * 3 + message)
        self.assertEqual((moved[0].messages, moved[0].gaps, moved[0].newest), (2712, 3, 5))

    def test_a_batch_that_lost_messages_is_made_again_within_bounds(self) -> None:
        """Of one that is too large the error names the setting: it is not damaged."""
        many = [Message(b"%d" % number, timestamp=number) for number in range(5000)]
        batch = encode_batch(many, "zstd")
        (inner,) = unpack_from(">i", batch, 8)
        padded = batch_start(len(batch) + 9000, inner, -1) + batch[16:] + bytes(9000)  # as compaction leaves it
        moving = ReadyEntries().ready(0, padded)
        self.assertEqual([m.payload for m in loops.decode_set(moving.data).messages], [m.payload for m in many])
        self.assertEqual(moving.messages, 5000)
        steps = ready_to_send(WholeEntries().take(0, padded), (64 << 20, 4999))
        self.assertIn("max_decompressed_messages", str(self.assertRaises(WrapperTooLarge, result_of, steps)))


def _noting(steps: Steps[MovingSet], moved: list[MovingSet]) -> Iterator[bool]:
    """Yield what the steps yield, and note what they return."""
    moved.append((yield from steps))
