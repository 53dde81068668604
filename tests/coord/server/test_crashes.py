"""Random lives of a durable tree on a disk that loses, tears and reorders what was not synced."""

from __future__ import annotations

import os

from twisted.trial.unittest import SynchronousTestCase

from tests.coord.server.history import Broken, TreeHistory

#: More of them: LOGD_HISTORIES=10000 python -m twisted.trial tests.coord.server.test_crashes
HISTORIES = int(os.environ.get("LOGD_HISTORIES", "200"))
#: The seed of the first one.
FIRST = int(os.environ.get("LOGD_HISTORY_START", "0"))
STEPS = 200
#: Fails only one of many thousand histories, since two snapshots are kept; test_recovery tests it by itself.
RARE = {"directory in logd.coord.server.storage.snapshots.write_snapshot"}


class TreeHistoryTests(SynchronousTestCase):
    """The tree's promise over random crashes, and that each sync is needed for it."""

    def test_every_recovered_tree_is_one_that_was(self) -> None:
        """It has its sessions and ephemeral nodes, and every change that a client was told of."""
        crashes = snapshots = 0
        for seed in range(FIRST, FIRST + HISTORIES):
            history = TreeHistory(seed)
            history.run(STEPS)
            crashes += history.crashes
            snapshots += history.snapshots
        self.assertGreater(crashes, 3 * HISTORIES)
        self.assertGreater(snapshots, HISTORIES)

    def test_every_sync_is_needed(self) -> None:
        """Some history goes wrong if any one kind of sync is taken out of the code."""
        sites: set[str] = set()
        for seed in range(60):
            history = TreeHistory(seed)
            history.run(STEPS)
            sites |= history.files.sites
        self.assertGreater(len(sites), 6)
        survived = sorted(site for site in sites - RARE if not self._goes_wrong(site))
        self.assertEqual(survived, [])

    def _goes_wrong(self, site: str) -> bool:
        for seed in range(400):
            try:
                TreeHistory(seed, frozenset({site})).run(STEPS)
            except Broken:
                return True
        return False
