"""Tests of random lives on a disk that loses, tears and reorders bytes that were not synced."""

from __future__ import annotations

import contextlib
import os
from unittest import mock

from twisted.trial.unittest import SynchronousTestCase

from logd.errors import LogdError
from logd.log.flush_task import FlushTask
from logd.testing.memory.file_system import MemoryFileSystem
from logd.testing.memory.files import MemoryFile
from tests.log.crashes.history import History
from tests.log.crashes.seeds import seeds_from
from tests.log.crashes.shadow import Broken

#: The number of lives; more of them: LOGD_HISTORIES=10000 python -m twisted.trial tests.log.crashes.test_crashes
HISTORIES = int(os.environ.get("LOGD_HISTORIES", "200"))
#: The seed of the first one.
FIRST = int(os.environ.get("LOGD_HISTORY_START", "0"))
STEPS = 200
#: Syncs whose absence shows only in some thousand lives; each has a test of its own (in test_recovery, test_retention,
#: test_log_store, test_lost_segments, test_truncation_crashes).
RARE = {
    "data in index.index.cut",
    "directory in store.opening.recover_again",
    "directory in recovery.recovery._drop_expired",
    "data in checkpoints_and_expiry._leave_to_mark",
    "directory in checkpoints_and_expiry._leave_to_mark",
    "directory in disk.folders.remove_leftovers",
    "directory in damage.repair.remove_index",
    "directory in checkpoints_and_expiry.do_upkeep",
}
#: The seeds that find the absence of a sync, or of a rule, where none of the first ones does.
HINTS = {
    "data in recovery.checkpoint.empty_checkpoint": 187,
    "directory in damage.repair.make_gap_segment": 158,
    "directory in disk.folders.remove_partitions": 24,
    "directory in recovery.recovery._recovered": 196,
    "partitions on other file systems": 45,
    "failed writes": 103,
}


class HistoryTests(SynchronousTestCase):
    """The invariants of the log, and that each sync is needed for them."""

    def test_random_lives_keep_every_invariant(self) -> None:
        """Visible bytes stay unchanged, ids never move, and no byte is visible before its sync."""
        crashes = losses = 0
        for seed in range(FIRST, FIRST + HISTORIES):
            history = History(seed)
            history.run(STEPS)
            crashes += history.crashes
            losses += history.losses
        self.assertGreater(crashes, 3 * HISTORIES)
        self.assertGreater(losses, HISTORIES // 10)

    def test_every_sync_is_needed(self) -> None:
        """Some life fails without it, so no sync is idle, and the invariants do find its absence."""
        sites: set[str] = set()
        for seed in range(30):
            history = History(seed)
            history.run(STEPS)
            sites |= history.files.sites
        self.assertGreater(len(sites), 12)
        survived = sorted(site for site in sites - RARE if not self._goes_wrong(site))
        self.assertEqual(survived, [])

    def test_each_rule_of_a_sync_of_many_partitions_is_needed(self) -> None:
        """Its success promises what each partition's own sync does."""

        with mock.patch.object(FlushTask, "is_on", lambda task, file_system: True):
            self.assertTrue(self._goes_wrong("partitions on other file systems"))
        sync = MemoryFileSystem.sync

        def believe(file_system: MemoryFileSystem) -> None:
            with contextlib.suppress(OSError):
                sync(file_system)

        with (
            mock.patch.object(MemoryFileSystem, "sync", believe),
            mock.patch.object(MemoryFile, "check_written", lambda file: None),
        ):
            self.assertTrue(self._goes_wrong("failed writes"))

    def _goes_wrong(self, site: str) -> bool:
        """Return whether a life without that sync fails; what names no sync leaves all of them."""
        for seed in seeds_from(HINTS.get(site, 0), 800):
            try:
                History(seed, frozenset({site})).run(STEPS)
            except (Broken, LogdError):
                return True
        return False
