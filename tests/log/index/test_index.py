"""Tests of logd.log.index.index, index_file and index_search."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import closing
from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.log.index.index import ActiveIndex, load_active_index
from logd.log.index.index_file import CHUNK, Boundary, WrongIndex, decode_chunk, encode_chunk
from logd.log.index.index_search import IndexSearch, last_boundary
from logd.testing.memory.files import MemoryFiles

PATH = "/index"


def made(count: int, files: MemoryFiles | None = None) -> tuple[ActiveIndex, list[Boundary]]:
    """Return an index of ``count`` boundaries, ten bytes and three milliseconds apart, and the boundaries."""
    index = ActiveIndex(files or MemoryFiles(), PATH, 0)
    boundaries = [Boundary(10 * number, 3 * number, number - 1) for number in range(count)]
    for boundary in boundaries:
        index.note(*boundary)
    return index, boundaries


def is_at_or_before(position: int, boundary: Boundary) -> bool:
    """Tell if a boundary is at or before a position, as searches by position ask."""
    return boundary.position <= position


def at_or_before(index: ActiveIndex, position: int) -> Boundary | None:
    """Return the last boundary up to ``position``."""
    with closing(IndexSearch(index.files, PATH, 0, index.tail, index.chunks)) as search:
        return search.split(partial(is_at_or_before, position))[0]


class SearchTests(SynchronousTestCase):
    """Searches in the tail and in the file."""

    def check(self, index: ActiveIndex, boundaries: list[Boundary], closed: bool) -> None:
        """Compare every split with the list's."""
        positions = [boundary.position for boundary in boundaries]
        for position in {-1, 0, 1, 5110, 5119, 5120, 5121, 10_230, 10_240, 10_241, *positions[-3:], 1 << 60}:
            at = bisect_right(positions, position)
            expected = (boundaries[at - 1] if at else None, boundaries[at] if at < len(boundaries) else None)
            tail, chunks = ((), None) if closed else (index.tail, index.chunks)
            holds = partial(is_at_or_before, position)
            with closing(IndexSearch(index.files, PATH, 0, tail, chunks)) as search:
                found = search.split(holds)
            self.assertEqual(found, expected, position)

    def test_a_growing_index_finds_every_boundary(self) -> None:
        """A boundary may be in the tail, or in a chunk of the file."""
        for count in (1, 2, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + 1, 3 * CHUNK):
            index, boundaries = made(count)
            self.assertLessEqual(len(index.tail), CHUNK)
            self.check(index, boundaries, closed=False)

    def test_a_finished_index_is_searched_in_its_file(self) -> None:
        """The end of the segment is its last boundary."""
        for count in (1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 7):
            index, boundaries = made(count)
            index.finish(10 * count, 3 * count, count)
            boundaries.append(Boundary(10 * count, 3 * count, count))
            self.check(index, boundaries, closed=True)
            self.assertEqual(last_boundary(index.files, PATH, 0), boundaries[-1])

    def test_append_times_never_go_down(self) -> None:
        """The clock may be set back, also between two chunks."""
        index, _ = made(CHUNK)
        index.note(10 * CHUNK, 5, 0)
        self.assertEqual(index.tail[-1].append_ms, 3 * (CHUNK - 1))


class LoadTests(SynchronousTestCase):
    """An index that is read again after a start."""

    def test_a_finished_index_goes_on(self) -> None:
        """Later boundaries join it, and the file stays right."""
        for count in (1, CHUNK - 1, CHUNK, CHUNK + 5):
            index, boundaries = made(count)
            index.finish(10 * count, 3 * count, count)
            again, left_out = load_active_index(index.files, PATH, 0, 10 * count)
            self.assertFalse(left_out)
            self.assertEqual(again.first_ms, 0)
            boundaries.append(Boundary(10 * count, 90_000, count))
            again.note(*boundaries[-1])  # the next append says when it came
            for number in range(count + 1, count + CHUNK + 3):
                boundaries.append(Boundary(10 * number, 90_000, count))
                again.note(*boundaries[-1])
            found = [at_or_before(again, boundary.position) for boundary in boundaries]
            self.assertEqual(found, boundaries)

    def test_boundaries_past_the_sound_end_are_dropped(self) -> None:
        """Such boundaries point into bytes that a recovery cut; the caller learns of them."""
        index, boundaries = made(2 * CHUNK + 10)
        index.finish(10 * len(boundaries), 0, 0)
        for sound in (0, 95, 5110, 5120, 5125, 10_240, 10_300):
            again, left_out = load_active_index(index.files, PATH, 0, sound)
            self.assertTrue(left_out)
            self.assertEqual(again.tail[-1], boundaries[sound // 10])

    def test_a_torn_chunk_is_dropped(self) -> None:
        """A file of which nothing is right is an error."""
        index, boundaries = made(CHUNK + 10)
        index.finish(10 * len(boundaries), 0, 0)
        files = index.files
        assert isinstance(files, MemoryFiles)
        data = files._inode(PATH).data
        data[-1] ^= 1
        again, left_out = load_active_index(files, PATH, 0, 1 << 60)
        self.assertEqual((left_out, again.chunks, again.tail[-1]), (True, 0, boundaries[CHUNK - 1]))
        data[30] ^= 1
        with self.assertRaises(WrongIndex):
            load_active_index(files, PATH, 0, 1 << 60)
        data[30] ^= 1
        with self.assertRaises(WrongIndex):
            load_active_index(files, PATH, 5, 1 << 60)


class ChunkTests(SynchronousTestCase):
    """The bytes of a chunk."""

    @settings(max_examples=50, deadline=None)
    @given(st.lists(st.tuples(*[st.integers(-(1 << 63), (1 << 63) - 1)] * 3), min_size=1, max_size=CHUNK), st.data())
    def test_a_chunk_notices_any_change(self, flat: list[tuple[int, int, int]], data: st.DataObject) -> None:
        """A chunk is read as it was written, or refused."""
        boundaries = [Boundary(*each) for each in flat]
        encoded = encode_chunk(boundaries)
        self.assertEqual(decode_chunk(encoded), boundaries)
        at = data.draw(st.integers(0, len(encoded) - 1))
        changed = bytearray(encoded)
        changed[at] ^= data.draw(st.integers(1, 255))
        for wrong in (bytes(changed), encoded[:at]):
            with self.assertRaises(WrongIndex):
                decode_chunk(wrong)
