"""Tests of logd.log.unsynced: the files of a sync that has to be repeated."""

from __future__ import annotations

import errno

from twisted.trial.unittest import SynchronousTestCase

from logd.config import LogSettings
from logd.log.flush_task import FlushTask
from logd.log.flusher import AGAIN_SECONDS
from tests.log.entries import plain
from tests.log.rig import Rig

ENTRY = plain(b"eleven more")
TRIES = 10


class RepeatedSyncTests(SynchronousTestCase):
    """Syncs for which a folder cannot be opened, as too many files are open."""

    def test_each_attempt_syncs_a_file_once(self) -> None:
        """A sync may be a flush of the whole disk, for which all other partitions wait."""
        attempts: list[list[str]] = []
        run = FlushTask.run

        def noted(task: FlushTask) -> None:
            attempts.append([shared.file.path for shared in task.files])
            run(task)

        self.patch(FlushTask, "run", noted)
        for during in (False, True):  # a segment is closed between two attempts, or during one of them
            rig = Rig(LogSettings(segment_bytes=30, flush_messages=1000))
            log = rig.log()
            log.append([ENTRY], 1, -1)
            log.flush_soon()
            rig.files.errors["sync_directory"] = [OSError(errno.EMFILE, "too many")] * TRIES
            for number in range(TRIES):
                if not during:
                    rig.threads.settle()
                if number == TRIES // 2:
                    for _ in range(2):
                        log.append([ENTRY], 1, -1)
                rig.threads.settle()
                rig.clock.advance(AGAIN_SECONDS)
            rig.threads.settle()
            self.assertEqual((log.flushed_end, rig.files.errors), (60, {"sync_directory": []}))
            self.assertEqual({len(paths) - len({*paths}) for paths in attempts}, {0})
            self.assertIn([rig.path(), rig.path(40)], attempts)
            rig.stop()
            self.assertEqual(rig.files.open_handles, 0)
            attempts.clear()
