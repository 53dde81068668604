"""Tests of logd.log.damage.folder_repair over missing and short segments: gaps take the place of lost bytes."""

from __future__ import annotations

import contextlib

from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.log.damage.folder_repair import repair_folder
from logd.log.damage.inspection import read_places
from logd.log.damage.kinds import DamageKind
from logd.protocol import loops
from logd.testing.memory.disk import PowerLoss
from tests.log.entries import plain
from tests.log.rig import ROOT, Rig

ENTRY = plain(b"eleven more")
FOLDER = f"{ROOT}/t-0"


class LostSegmentTests(SynchronousTestCase):
    """A partition's folder that has lost whole segments, or their ends."""

    def killed(self) -> Rig:
        """Return a killed broker's disk with segments 0-60, 60-120 and 120-160, all flushed."""
        rig = Rig(LogSettings(segment_bytes=50, index_bytes=1))
        rig.filled(*[ENTRY] * 8)
        rig.store.write_checkpoints()
        rig.threads.settle()
        rig.kill()
        return rig

    def check(self, rig: Rig, *lost: tuple[int, int, DamageKind]) -> None:
        """Repair, and check that the log is served whole, with gaps in place of lost bytes, and that ids go on."""
        rig.files.sync_directory(FOLDER)  # removed files stay so when the power goes
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

    def test_a_gap_lengthens_the_segment_before(self) -> None:
        """No file has to be made for it."""
        rig = self.killed()
        rig.files.remove(rig.path(60))
        self.check(rig, (60, 60, DamageKind.SHORT))

    def test_a_gap_replaces_a_lost_end(self) -> None:
        """The segment is in the middle, or the last of the log."""
        rig = self.killed()
        del rig.data(60)[45:]
        del rig.data(120)[20:]
        self.check(rig, (100, 20, DamageKind.SHORT), (140, 20, DamageKind.SHORT))

    def test_a_gap_replaces_the_first_segments(self) -> None:
        """The gap is a segment of its own, as old as the next one, for retention."""
        rig = self.killed()
        rig.files.remove(rig.path(0))
        rig.files.remove(rig.path(60))
        rig.files.set_modified(rig.path(120), 77.0)
        self.check(rig, (0, 120, DamageKind.MISSING))
        self.assertEqual(rig.files.modified(rig.path(0)), 77.0)

    def test_the_mark_alone_shows_the_loss(self) -> None:
        """`logd verify` reports it before a repair."""
        rig = self.killed()
        rig.files.remove(f"{FOLDER}/checkpoint")
        rig.files.remove(rig.path(0))
        self.assertTrue(read_places(rig.files, FOLDER).has_losses)
        self.check(rig, (0, 60, DamageKind.MISSING))

    def test_a_gap_replaces_the_last_segment(self) -> None:
        """The gap lengthens the segment before."""
        rig = self.killed()
        rig.files.remove(rig.path(120))
        self.check(rig, (120, 40, DamageKind.SHORT))

    def test_a_gap_replaces_the_whole_log(self) -> None:
        """The gap is one segment, from the log's start to its end."""
        rig = self.killed()
        for start in (0, 60, 120):
            rig.files.remove(rig.path(start))
        self.check(rig, (0, 160, DamageKind.MISSING))

    def test_a_file_put_back_replaces_its_gap(self) -> None:
        """The file is found after the repair, and the next start takes it."""
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

    def test_an_index_inside_a_gap_stays_away(self) -> None:
        """A loss of power after the repair could bring its name back."""
        for seed in range(8):
            rig = self.killed()
            del rig.data(60)[20:]
            rig.files._inode(rig.path(60)).sync()
            rig.files.sync_directory(FOLDER)
            rig.files.random.seed(seed)
            repair_folder(rig.files, FOLDER, dry_run=False, cut=False)
            rig.kill(power_lost=True)
            self.assertFalse(rig.files.exists(rig.path(60).replace(".log", ".index")))

    def test_a_repair_survives_power_loss(self) -> None:
        """Another repair finishes it, at whichever change the power went."""
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
