"""Tests of the loops that use only lengths and heads."""

from __future__ import annotations

from logd.protocol.message import Message
from tests.log.entries import gap, plain, timed, wrapped
from tests.protocol.loops.implementations import LoopsTestCase, on_each_implementation

LOG = [plain(b"hello"), wrapped(b"hello"), timed(b"a", 50), gap(20), timed(b"b", 40), plain(b"")]
ENDS = [sum(map(len, LOG[: number + 1])) for number in range(len(LOG))]
DATA = b"".join(LOG)


@on_each_implementation
class EndTests(LoopsTestCase):
    """The ends of entries."""

    def test_every_entrys_end_is_found(self) -> None:
        """From any entry on, in bytes and in a memoryview."""
        self.assertEqual(self.loops.ends_of_set(DATA), ENDS)
        self.assertEqual(self.loops.ends_of_set(memoryview(DATA), ENDS[1]), ENDS[2:])
        self.assertEqual(self.loops.ends_of_set(b""), [])

    def test_the_end_of_a_cut_entry_is_found(self) -> None:
        """Its four bytes of length are enough, so that a reader knows how much is missing."""
        for size in range(len(DATA)):
            begun = sum(start + 4 <= size for start in [0, *ENDS[:-1]])
            self.assertEqual(self.loops.ends_of_set(DATA[:size]), ENDS[:begun])

    def test_an_impossible_length_ends_the_list(self) -> None:
        """No entry has a length of 4 or less, and a negative one would lead back."""
        for length in (4, 0, -1, -(1 << 31)):
            data = DATA + length.to_bytes(4, "big", signed=True) + bytes(50)
            self.assertEqual(self.loops.ends_of_set(data), ENDS)


@on_each_implementation
class HeadTests(LoopsTestCase):
    """The heads of entries."""

    def test_every_entrys_head_is_found(self) -> None:
        """With index, size and time; a damaged payload does not matter, since no checksum is computed."""
        starts = [0, *ENDS[:-1]]
        heads = [(at, len(entry), time) for at, entry, time in zip(starts, LOG, [-1, -1, 50, -1, 40, -1], strict=True)]
        self.assertEqual(self.loops.heads_of_set(DATA), heads)
        self.assertEqual(self.loops.heads_of_set(memoryview(DATA), ENDS[0]), heads[1:])
        damaged = DATA[: len(LOG[0]) - 1] + b"!" + DATA[len(LOG[0]) :]
        self.assertEqual(self.loops.heads_of_set(damaged), heads)

    def test_the_head_of_a_cut_entry_is_found(self) -> None:
        """If all of the head is there, which is longer with some magics."""
        for entry, head_bytes in ((LOG[0], 9), (LOG[1], 10), (LOG[2], 22), (LOG[3], 9)):
            for size in range(len(entry)):
                found = self.loops.heads_of_set(LOG[5] + entry[:size])
                self.assertEqual(len(found), 2 if size >= head_bytes else 1)

    def test_an_impossible_head_ends_the_list(self) -> None:
        """By its length, its magic, or both together."""
        for head in ("00000004 00 00000000", "00000010 63 00000000", "fffffff6 00 00000000", "00000012 02 00000000"):
            self.assertEqual(len(self.loops.heads_of_set(DATA + bytes.fromhex(head) + bytes(50))), len(LOG))


@on_each_implementation
class SliceEndTests(LoopsTestCase):
    """The ends of slices."""

    def test_a_slice_keeps_its_bounds(self) -> None:
        """It ends behind a number of entries, or behind the entry that exceeds the number of bytes."""
        data = self.loops.encode_set([Message(bytes(size)) for size in range(20)])
        self.assertEqual(self.loops.slice_end(data, 0, 1, 1000), 9)
        self.assertEqual(self.loops.slice_end(data, 0, 3, 1000), 9 + 10 + 11)
        self.assertEqual(self.loops.slice_end(data, 0, 100, 19), 9 + 10 + 11)
        self.assertEqual(self.loops.slice_end(data, 9, 100, 9), 9 + 10)
        self.assertEqual(self.loops.slice_end(data, 0, 100, 1000), len(data))

    def test_an_impossible_length_makes_a_slice_of_the_rest(self) -> None:
        """The check of that slice then refuses it, with the reason."""
        for length in (0, -1, -(1 << 31)):
            data = DATA + length.to_bytes(4, "big", signed=True) + bytes(50)
            self.assertEqual(self.loops.slice_end(data, 0, 100, 1000), len(data))
