"""Tests of the search for the entries at which the parts of a fetch begin."""

from __future__ import annotations

from collections.abc import Iterable

from twisted.trial.unittest import SynchronousTestCase

from logd.broker.requests.boundary_search import Start, search_boundaries
from logd.config import LogSettings
from logd.errors import PartitionOffline, UnknownError
from logd.log.disk.names import index_name, join
from logd.log.partition import PartitionLog
from logd.testing.memory.files import MemoryFile
from tests.log.entries import plain
from tests.log.rig import ROOT, Rig

#: 20 bytes as an entry.
ENTRY = plain(b"eleven more")


def failed(found: dict[int, Start]) -> set[int]:
    """Return the offsets of which the search failed."""
    return {offset for offset, start in found.items() if isinstance(start, UnknownError)}


class BoundarySearchTests(SynchronousTestCase):
    """``search_boundaries`` in a log of entries of 20 bytes."""

    def make(self, entries: int, segment_bytes: int = 1 << 20, index_bytes: int = 4096) -> PartitionLog:
        """Return a log of so many entries, each in the index if ``index_bytes`` is 1."""
        self.rig = Rig(LogSettings(segment_bytes=segment_bytes, index_bytes=index_bytes))
        return self.rig.filled(*[ENTRY] * entries)

    def damage(self, position: int, segment: int = 0) -> None:
        """Overwrite the length of the entry at a position, and remove the index of its segment."""
        self.rig.data(segment)[position - segment : position - segment + 4] = b"\xff\xff\xff\xff"
        path = join(join(ROOT, "t-0"), index_name(segment))
        if self.rig.files.exists(path):
            self.rig.files.remove(path)

    def cost(self, log: PartitionLog, offsets: Iterable[int]) -> tuple[int, int]:
        """Return the calls of the disk and the bytes that a search reads."""
        files = self.rig.files
        calls, read = files.calls, files.bytes_read
        dict(search_boundaries(log, offsets))
        return files.calls - calls, files.bytes_read - read

    def test_what_lies_behind_damage_is_not_found(self) -> None:
        """All else is: the entry that is damaged, those before it, and those of other segments."""
        log = self.make(12, segment_bytes=90)
        self.assertEqual([start for start, _, _ in log.segments()], [0, 100, 200])
        self.damage(140, segment=100)
        found = dict(search_boundaries(log, [225, 5, 160, 141, 199, 140, 125, 5, 205, 161]))
        self.assertEqual(failed(found), {141, 160, 161, 199})
        self.assertEqual({found[at] for at in failed(found)} & {found[5]}, set())
        self.assertEqual([found[at] for at in (5, 125, 140, 205, 225)], [0, 120, 140, 200, 220])
        self.assertIn("at offset 161: an entry's length is invalid (at position 140)", str(found[161]))

    def test_many_offsets_behind_damage_cost_as_much_as_one(self) -> None:
        """The way to the damage is not gone once more for each of them."""
        log = self.make(1000)
        self.damage(10_000)
        log.forget_boundaries(0)
        offsets = range(10_001, 20_000, 10)
        self.assertEqual(len(failed(dict(search_boundaries(log, offsets)))), 1000)
        self.assertEqual(self.cost(log, offsets), self.cost(log, offsets[:1]))

    def test_an_index_that_cannot_be_made_is_tried_once(self) -> None:
        """Damage in a closed segment ends the scan that makes its index again."""
        log = self.make(1100, segment_bytes=20_000)
        self.damage(10_000)
        offsets = range(10_001, 20_000, 10)
        self.assertEqual(len(failed(dict(search_boundaries(log, offsets)))), 1000)
        self.assertEqual(self.cost(log, offsets), self.cost(log, offsets[:1]))
        self.assertEqual(dict(search_boundaries(log, [21, 20_041])), {21: 20, 20_041: 20_040})

    def test_an_error_of_the_disk_spares_other_entries(self) -> None:
        """It may pass at once."""
        log = self.make(6, index_bytes=1)
        self.rig.files.errors["read_at"] = [OSError(5, "Input/output error")]
        found = dict(search_boundaries(log, [25, 31, 45, 110]))
        self.assertEqual(failed(found), {25, 31})
        self.assertEqual((found[45], found[110]), (40, 100))

    def test_a_file_that_cannot_be_closed_spoils_nothing(self) -> None:
        """All was read by then, and the segments behind it are searched too."""
        log = self.make(12, segment_bytes=90)
        close = MemoryFile.close

        def fail(file: MemoryFile) -> None:
            """Close a file, and fail."""
            close(file)
            raise OSError(5, "Input/output error")

        self.patch(MemoryFile, "close", fail)
        found = dict(search_boundaries(log, [5, 125, 225]))
        self.assertEqual(found, {5: 0, 125: 120, 225: 220})

    def test_a_log_that_is_offline_has_nothing(self) -> None:
        """Each offset has that error."""
        log = self.make(6)
        log.go_offline(OSError(5, "Input/output error"))
        found = dict(search_boundaries(log, [5, 25]))
        self.assertEqual([type(start) for start in found.values()], [PartitionOffline] * 2)
