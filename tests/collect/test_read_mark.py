"""Tests of logd.collect.read_mark: places in files, known by the content around them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.collect.read_mark import HEAD_BYTES, START, TAIL_BYTES, ReadMark, fits, line_start, mark_at, moved, read_on
from tests.collect.doubles import MemoryDisk


class ReadMarkTests(SynchronousTestCase):
    """``ReadMark`` and its functions."""

    def setUp(self) -> None:
        """Make a file whose content repeats nowhere."""
        self.disk = MemoryDisk()
        self.content = b"".join(b"%06d\n" % number for number in range(1000))
        self.disk.append("/f", self.content)
        self.file = self.disk.open("/f")

    def read(self, mark: ReadMark, count: int, used: int) -> ReadMark:
        """Read on and move the mark behind a part of the bytes."""
        data, before = read_on(self.file, mark, count)
        assert data is not None
        self.assertEqual(data, self.content[mark.position : mark.position + count])
        return moved(mark, data, used, before)

    @settings(deadline=None, max_examples=100)
    @given(st.lists(st.tuples(st.integers(0, 1500), st.integers(0, 300)), max_size=8))
    def test_a_moved_mark_is_the_one_made_there(self, steps: list[tuple[int, int]]) -> None:
        """Moving costs nothing but the bytes read anyway."""
        self.setUp()
        mark = START
        for used, more in steps:
            used = min(used, len(self.content) - mark.position)
            mark = self.read(mark, used + more, used)
        self.assertEqual(mark, mark_at(self.file, mark.position))
        self.assertTrue(fits(self.file, mark))

    def test_a_changed_file_does_not_fit_its_mark(self) -> None:
        """A byte at the start or before the place shows it, and so does a shorter length."""
        mark = mark_at(self.file, 5000)
        node = self.disk.names["/f"]
        for place, fitting in ((0, False), (HEAD_BYTES - 1, False), (HEAD_BYTES, True), (4999, False), (5000, True)):
            node.data[place] ^= 1
            self.assertEqual(fits(self.file, mark), fitting, place)
            node.data[place] ^= 1
        self.assertTrue(fits(self.file, mark_at(self.file, 5000 - TAIL_BYTES)))
        del node.data[5000:]
        self.assertTrue(fits(self.file, mark))
        del node.data[4999:]
        self.assertFalse(fits(self.file, mark))
        self.assertEqual(read_on(self.file, mark, 10), (None, b""))

    def test_every_file_fits_the_start(self) -> None:
        """An empty one does, too."""
        self.assertTrue(fits(self.file, START))
        self.disk.create("/g")
        self.assertTrue(fits(self.disk.open("/g"), START))
        self.assertEqual(mark_at(self.file, 0), START)

    def test_the_beginning_of_a_line_is_found(self) -> None:
        """A line that begins too far before the place is not searched for."""
        for position, start in ((0, 0), (6, 0), (7, 7), (13, 7), (700, 700)):
            self.assertEqual(line_start(self.file, position, 100), start)
        self.assertEqual(line_start(self.file, 13, 5), 0)
