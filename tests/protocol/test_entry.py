"""Tests of logd.protocol.entry: the table of layouts, heads, and gaps."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

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
from tests.log.entries import gap, plain, timed, wrapped
from tests.protocol.loops.test_damage import changes

#: One entry of each magic, made by hand, and those of them that have a time.
ENTRIES = {PLAIN: plain(b"hello"), WRAPPER: wrapped(b"hello"), KEYED: timed(b"hello", 7), GAP: gap(30)}
TIMES = {KEYED: 7}


class LayoutTests(SynchronousTestCase):
    """The table of layouts, against entries made by hand."""

    def test_every_magic_has_an_entry_here(self) -> None:
        """A magic that is added to the table must be added to these tests."""
        self.assertEqual(set(ENTRIES), set(LAYOUTS))

    def test_a_head_tells_magic_size_and_time(self) -> None:
        """For an entry of each magic, with other bytes before and behind it."""
        for magic, entry in ENTRIES.items():
            head = head_at(b"??" + entry + b"!", 2)
            assert head is not None
            self.assertEqual((head.magic, head.size, head.timestamp), (magic, len(entry), TIMES.get(magic, -1)))
            self.assertEqual(head.is_gap, magic == GAP)
            self.assertEqual(size_at(b"??" + entry, 2), len(entry))
            self.assertEqual(size_by_length(b"??" + entry[:4], 2), len(entry))

    def test_a_checksum_covers_the_range_of_its_layout(self) -> None:
        """Both implementations of the checksum find the entries made by hand sound."""
        for entry in ENTRIES.values():
            head = head_at(entry)
            assert head is not None
            covered = entry[head.checked_from : head.checked_to]
            for checksums in (CHECKSUMS, INDEPENDENT_CHECKSUMS):
                self.assertEqual(checksums[head.layout.checksum](covered), head.checksum)
                self.assertTrue(head.layout.holds(b"?" + entry, 1, 1 + len(entry), checksums))

    def test_a_change_of_any_covered_byte_is_noticed(self) -> None:
        """The same holds for a change of the checksum itself."""
        for magic, entry in ENTRIES.items():
            layout = LAYOUTS[magic]
            covered = range(layout.checked_from, layout.checked_to or len(entry))
            for at in {*covered, *range(layout.checksum_at, layout.checksum_at + 4)}:
                for changed in changes(entry, at):
                    self.assertFalse(layout.holds(changed, 0, len(entry)))

    def test_an_entry_below_its_least_size_is_refused(self) -> None:
        """One of the least size has its whole head, so that reading a head never leaves the entry."""
        for magic, layout in LAYOUTS.items():
            self.assertLessEqual(layout.head_bytes, 4 + layout.minimum)
            self.assertLessEqual(LEAST_BYTES, 4 + layout.minimum)
            short = (layout.minimum - 1).to_bytes(4, "big") + bytes((magic,)) + bytes(MOST_HEAD_BYTES)
            self.assertRaises(ValueError, head_at, short)
            self.assertEqual(size_at(short), 0)
            self.assertFalse(layout.holds(short, 0, 3 + layout.minimum))
            least = layout.minimum.to_bytes(4, "big") + bytes((magic,)) + bytes(layout.minimum - 1)
            self.assertIsNotNone(head_at(least))
            self.assertEqual(size_at(least), 4 + layout.minimum)

    def test_a_gap_tells_its_size_without_its_length(self) -> None:
        """A damaged length field would otherwise hide where the next entry begins."""
        self.assertIsNotNone(LAYOUTS[GAP].own_size)
        for magic, entry in ENTRIES.items():
            own_size = LAYOUTS[magic].own_size
            if own_size is not None:
                self.assertEqual(own_size(b"??" + b"\xff\0\xff\0" + entry[4:], 2), len(entry))

    def test_a_head_that_is_cut_is_none_yet(self) -> None:
        """A reader asks for more bytes then, and must not take the entry for damaged."""
        for entry in ENTRIES.values():
            whole = LAYOUTS[entry[4]].head_bytes
            self.assertIsNone(head_at(entry[: whole - 1]))
            self.assertIsNotNone(head_at(entry[:whole]))
            self.assertEqual((size_at(entry[:4]), size_by_length(entry[:3])), (0, 0))

    def test_an_unknown_magic_is_refused(self) -> None:
        """The error names the magic: a later release may have written the entry."""
        entry = ENTRIES[PLAIN][:4] + b"\x63" + ENTRIES[PLAIN][5:]
        self.assertIn("magic 99", str(self.assertRaises(ValueError, head_at, entry)))
        self.assertEqual(size_at(entry), 0)

    def test_only_a_wrapper_has_a_codec(self) -> None:
        """The byte where magic 1 has its attributes is part of the checksum in other entries."""
        self.assertEqual(codec_at(b"?" + encode_wrapper("zstd", b""), 1), 3)
        self.assertEqual({codec_at(entry) for entry in ENTRIES.values()}, {0})

    def test_the_pattern_finds_every_head(self) -> None:
        """A repair searches damaged bytes for it; bytes that look like another head must not hide one."""
        pattern = head_pattern()
        for entry in ENTRIES.values():
            found = [match.start() for match in pattern.finditer(b"\xff" * 3 + entry)]
            self.assertIn(3, found)
        self.assertEqual([match.start() for match in pattern.finditer(b"\xff" * 50)], [])
        self.assertEqual([match.start() for match in pattern.finditer(b"\0\0\0\4\0" + b"\xff" * 9)], [])


class GapTests(SynchronousTestCase):
    """Gaps, which take the place of removed entries."""

    def test_the_smallest_gap_has_nine_bytes(self) -> None:
        """Every entry that may be removed has as many at least."""
        self.assertEqual(encode_gap(9).hex(), "000000057f512e2b93")

    @settings(deadline=None)
    @given(st.integers(9, (1 << 31) - 1))
    def test_a_gaps_head_tells_its_size_twice(self, total: int) -> None:
        """By the length, and by the checksum, which is over the length."""
        self.assertEqual(gap_length(b"??" + encode_gap(total), 2), total)
        self.assertEqual(gap_own_size(b"??" + encode_gap(total), 2), total)

    def test_a_gap_of_an_impossible_size_is_refused(self) -> None:
        """Below nine bytes there is no room for the head, above an int32 none for the length."""
        self.assertRaises(ValueError, encode_gap, 8)
        self.assertRaises(ValueError, encode_gap, 1 << 31)

    def test_a_change_of_any_byte_of_the_head_is_noticed(self) -> None:
        """A wrong length would make a reader jump over good messages."""
        head = encode_gap(300)
        for at in range(9):
            for change in range(1, 256):
                damaged = head[:at] + bytes((head[at] ^ change,)) + head[at + 1 :]
                self.assertEqual(gap_length(damaged), 0)

    def test_eight_bytes_are_no_gap_yet(self) -> None:
        """The ninth byte belongs to the checksum."""
        self.assertEqual(gap_length(encode_gap(9)[:8]), 0)
