"""Tests of logd.log.damage.folder_repair where segments are missing or short: gaps take the place of what is lost."""

from __future__ import annotations

import contextlib

from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.log.damage.folder_repair import repair_folder
from logd.log.damage.inspection import read_places
from logd.log.damage.kinds import DamageKind
from logd.protocol import loops
from logd.testing.memory.files import PowerLoss
from tests.log.entries import plain
from tests.log.rig import ROOT, Rig

ENTRY = plain(b"eleven more")
FOLDER = f"{ROOT}/t-0"


class LostSegmentTests(SynchronousTestCase):
    """Gaps in the place of segments that are missing or short, in a whole partition's folder."""

    def killed(self) -> Rig:
        """Segments 0-60, 60-120, 120-160, all flushed; the broker was killed."""
        rig = Rig(LogSettings(segment_bytes=50, index_bytes=1))
        rig.filled(*[ENTRY] * 8)
        rig.store.write_checkpoints()
        rig.threads.settle()
        rig.kill()
        return rig

    def check(self, rig: Rig, *lost: tuple[int, int, DamageKind]) -> None:
        """Repair; then the log is served as a whole, with gaps where bytes are lost, and ids go on."""
        rig.files.sync_directory(FOLDER)  # what was removed stays so when the power goes
        found = repair_folder(rig.files, FOLDER, dry_run=True, cut=False)
        self.assertFalse(found.is_sound)
        self.assertEqual(found.end, 160)
        found = repair_folder(rig.files, FOLDER, dry_run=False, cut=False)
        self.assertEqual([(start + each.position, each.size, each.kind) for start, each, _ in found.damages], [*lost])
        self.assertTrue(all(mended for _, _, mended in found.damages))
        self.assertEqual((found.is_sound, found.end), (True, 160))
        self.assertFalse(read_places(rig.files, FOLDER).has_losses)
        rig.kill(power_lost=True)
        rig.open()
        log = rig.log()
        self.assertEqual((log.offline, log.start, log.end), (None, 0, 160))
        decoded = loops.decode_set(rig.content(log))
        self.assertEqual((decoded.error, decoded.position), (None, 160))
        self.assertEqual(decoded.gap_bytes, sum(size for _, size, _ in lost))
        expected = [at for at in range(0, 160, 20) if not any(start <= at < start + size for start, size, _ in lost)]
        self.assertEqual([message.id for message in decoded.messages], expected)
        self.assertEqual([log.find_boundary(at) for at in expected], expected)
        self.assertEqual([log.find_boundary(start + size - 1) for start, size, _ in lost], [each[0] for each in lost])
        self.assertEqual(log.append([ENTRY], 1, -1), 160)

    def test_in_the_middle(self) -> None:
        """The segment before is lengthened by a gap."""
        rig = self.killed()
        rig.files.remove(rig.path(60))
        self.check(rig, (60, 60, DamageKind.SHORT))

    def test_short(self) -> None:
        """So it is where a segment has lost its end, in the middle or at the log's end."""
        rig = self.killed()
        del rig.data(60)[45:]
        del rig.data(120)[20:]
        self.check(rig, (100, 20, DamageKind.SHORT), (140, 20, DamageKind.SHORT))

    def test_the_first(self) -> None:
        """In front of the first segment that is left a segment of a gap is made, as old as that one."""
        rig = self.killed()
        rig.files.remove(rig.path(0))
        rig.files.remove(rig.path(60))
        rig.files.set_modified(rig.path(120), 77.0)
        self.check(rig, (0, 120, DamageKind.MISSING))
        self.assertEqual(rig.files.modified(rig.path(0)), 77.0)

    def test_the_first_without_a_checkpoint(self) -> None:
        """So it is where the mark alone tells that there was one; `verify` says so before."""
        rig = self.killed()
        rig.files.remove(f"{FOLDER}/checkpoint")
        rig.files.remove(rig.path(0))
        self.assertTrue(read_places(rig.files, FOLDER).has_losses)
        self.check(rig, (0, 60, DamageKind.MISSING))

    def test_the_last(self) -> None:
        """A last segment that is missing is a gap at the end of the one before."""
        rig = self.killed()
        rig.files.remove(rig.path(120))
        self.check(rig, (120, 40, DamageKind.SHORT))

    def test_all(self) -> None:
        """Where no segment is left one of a gap is made, from the log's start to its end."""
        rig = self.killed()
        for start in (0, 60, 120):
            rig.files.remove(rig.path(start))
        self.check(rig, (0, 160, DamageKind.MISSING))

    def test_put_back_later(self) -> None:
        """A file that is found after its gap was made takes the gap's place again at the next start."""
        rig = self.killed()
        content = bytes(rig.data(60))
        rig.files.remove(rig.path(60))
        self.check(rig, (60, 60, DamageKind.SHORT))
        rig.threads.settle()
        rig.kill()
        file = rig.files.open(rig.path(60), create=True)
        file.append([content])
        file.close()
        rig.open()
        self.assertEqual(rig.content(rig.log()), ENTRY * 9)

    def test_the_index_does_not_come_back(self) -> None:
        """An index whose entries lie in a gap stays away when the power goes behind the repair."""
        for seed in range(8):
            rig = self.killed()
            del rig.data(60)[20:]
            rig.files._inode(rig.path(60)).sync()
            rig.files.sync_directory(FOLDER)
            rig.files.random.seed(seed)
            repair_folder(rig.files, FOLDER, dry_run=False, cut=False)
            rig.kill(power_lost=True)
            self.assertFalse(rig.files.exists(rig.path(60).replace(".log", ".index")))

    def test_power(self) -> None:
        """Whenever the power goes during a repair, another one finishes it."""
        for power in range(1, 12):
            for lost in ((60,), (0,), (0, 60, 120)):
                rig = self.killed()
                for start in lost:
                    rig.files.remove(rig.path(start))
                for name in rig.files.list(FOLDER):
                    rig.files._inode(f"{FOLDER}/{name}").sync()
                rig.files.sync_directory(FOLDER)
                rig.files.random.seed(power)
                rig.files.power = power
                with contextlib.suppress(PowerLoss):
                    repair_folder(rig.files, FOLDER, dry_run=False, cut=False)
                rig.kill(power_lost=True)
                repair_folder(rig.files, FOLDER, dry_run=False, cut=False)
                rig.open()
                self.assertEqual((rig.log().offline, rig.log().end), (None, 160))
                self.assertEqual(loops.decode_set(rig.content(rig.log())).gap_bytes, 60 if len(lost) < 3 else 160)
