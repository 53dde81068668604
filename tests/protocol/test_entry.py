"""Tests of logd.protocol.entry: the table of layouts, heads, and gaps."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.batch_layout import BATCH
from logd.protocol.checksums import CHECKSUMS, INDEPENDENT_CHECKSUMS
from logd.protocol.entry import (
    GAP,
    KEYED,
    LAYOUTS,
    LEAST_BYTES,
    MOST_HEAD_BYTES,
    PLAIN,
    WRAPPER,
    codec_at,
    encode_gap,
    gap_length,
    gap_own_size,
    head_at,
    head_pattern,
    size_at,
    size_by_length,
)
from logd.protocol.wrapper import encode_wrapper
from tests.log.entries import batch, gap, plain, record, timed, wrapped
from tests.protocol.loops.test_damage import changes

#: One entry of each magic, made by hand, and those of them that have a time.
ENTRIES = {
    PLAIN: plain(b"hello"),
    WRAPPER: wrapped(b"hello"),
    KEYED: timed(b"hello", 7),
    BATCH: batch(record(b"hello"), time=7),
    GAP: gap(30),
}
TIMES = {KEYED: 7, BATCH: 7}


class LayoutTests(SynchronousTestCase):
    """The table, against entries made by hand."""

    def test_every_magic_is_tried(self) -> None:
        """A magic that is added to the table is added here."""
        self.assertEqual(set(ENTRIES), set(LAYOUTS))

    def test_heads(self) -> None:
        """A head tells the magic, the size and the time, wherever it stands."""
        for magic, entry in ENTRIES.items():
            head = head_at(b"??" + entry + b"!", 2)
            assert head is not None
            self.assertEqual((head.magic, head.size, head.timestamp), (magic, len(entry), TIMES.get(magic, -1)))
            self.assertEqual(head.is_gap, magic == GAP)
            self.assertEqual(size_at(b"??" + entry, 2), len(entry))
            self.assertEqual(size_by_length(b"??" + entry[:4], 2), len(entry))

    def test_checksums(self) -> None:
        """A head tells what its checksum covers, and any implementation of the checksum finds it so."""
        for entry in ENTRIES.values():
            head = head_at(entry)
            assert head is not None
            covered = entry[head.checked_from : head.checked_to]
            for checksums in (CHECKSUMS, INDEPENDENT_CHECKSUMS):
                self.assertEqual(checksums[head.layout.checksum](covered), head.checksum)
                self.assertTrue(head.layout.holds(b"?" + entry, 1, 1 + len(entry), checksums))

    def test_changes(self) -> None:
        """A change of any byte that the checksum covers, or of the checksum, is noticed."""
        for magic, entry in ENTRIES.items():
            layout = LAYOUTS[magic]
            head = head_at(entry)
            assert head is not None
            covered = range(layout.checked_from, head.checked_to)
            for at in {*covered, *range(layout.checksum_at, layout.checksum_at + 4)}:
                for changed in changes(entry, at):
                    self.assertFalse(layout.holds(changed, 0, len(entry)))

    def test_minimum(self) -> None:
        """An entry below the least size of its magic is none, and one of that size has its head whole."""
        for magic, layout in LAYOUTS.items():
            self.assertLessEqual(layout.head_bytes, 4 + layout.minimum)
            self.assertLessEqual(LEAST_BYTES, 4 + layout.minimum)
            short = (layout.minimum - 1).to_bytes(4, "big") + bytes((magic,)) + bytes(MOST_HEAD_BYTES)
            self.assertRaises(ValueError, head_at, short)
            self.assertEqual(size_at(short), 0)
            self.assertFalse(layout.holds(short, 0, 3 + layout.minimum))
            least = layout.minimum.to_bytes(4, "big") + bytes((magic,)) + bytes(layout.minimum - 1)
            self.assertEqual(size_at(least), 4 + layout.minimum)
            if layout.check_head is None:
                self.assertIsNotNone(head_at(least))

    def test_own_size(self) -> None:
        """Other bytes than N that tell the size, as a gap has, do so however N is damaged."""
        self.assertIsNotNone(LAYOUTS[GAP].own_size)
        for magic, entry in ENTRIES.items():
            own_size = LAYOUTS[magic].own_size
            if own_size is not None:
                self.assertEqual(own_size(b"??" + b"\xff\0\xff\0" + entry[4:], 2), len(entry))

    def test_cut_off(self) -> None:
        """A head that is not all there is none yet."""
        for entry in ENTRIES.values():
            whole = LAYOUTS[entry[4]].head_bytes
            self.assertIsNone(head_at(entry[: whole - 1]))
            self.assertIsNotNone(head_at(entry[:whole]))
            self.assertEqual((size_at(entry[:4]), size_by_length(entry[:3])), (0, 0))

    def test_unknown(self) -> None:
        """A magic that is not in the table is refused."""
        entry = ENTRIES[PLAIN][:4] + b"\x63" + ENTRIES[PLAIN][5:]
        self.assertIn("magic 99", str(self.assertRaises(ValueError, head_at, entry)))
        self.assertEqual(size_at(entry), 0)

    def test_codec(self) -> None:
        """Only a magic-1 entry has a codec."""
        self.assertEqual(codec_at(b"?" + encode_wrapper("zstd", b""), 1), 3)
        self.assertEqual({codec_at(entry) for entry in ENTRIES.values()}, {0})

    def test_pattern(self) -> None:
        """The pattern finds every place where an entry begins, also inside of what looks like another head."""
        pattern = head_pattern()
        for entry in ENTRIES.values():
            found = [match.start() for match in pattern.finditer(b"\xff" * 3 + entry)]
            self.assertIn(3, found)
        self.assertEqual([match.start() for match in pattern.finditer(b"\xff" * 50)], [])
        self.assertEqual([match.start() for match in pattern.finditer(b"\0\0\0\4\0" + b"\xff" * 9)], [])


class GapTests(SynchronousTestCase):
    """An entry that was removed leaves a gap."""

    def test_vector(self) -> None:
        """The smallest gap is nine bytes."""
        self.assertEqual(encode_gap(9).hex(), "000000057f512e2b93")

    @settings(deadline=None)
    @given(st.integers(9, (1 << 31) - 1))
    def test_round_trip(self, total: int) -> None:
        """The head alone says how much is filled, and so does its checksum."""
        self.assertEqual(gap_length(b"??" + encode_gap(total), 2), total)
        self.assertEqual(gap_own_size(b"??" + encode_gap(total), 2), total)

    def test_refuses_sizes(self) -> None:
        """Nothing below nine bytes or above an int32 can be a gap."""
        self.assertRaises(ValueError, encode_gap, 8)
        self.assertRaises(ValueError, encode_gap, 1 << 31)

    def test_no_single_change_of_the_head_holds(self) -> None:
        """Any other value of any of the nine bytes makes it no gap."""
        head = encode_gap(300)
        for at in range(9):
            for change in range(1, 256):
                damaged = head[:at] + bytes((head[at] ^ change,)) + head[at + 1 :]
                self.assertEqual(gap_length(damaged), 0)

    def test_short(self) -> None:
        """Eight bytes are too few to tell."""
        self.assertEqual(gap_length(encode_gap(9)[:8]), 0)
