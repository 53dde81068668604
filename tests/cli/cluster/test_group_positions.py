"""Tests of storing positions under a group's name."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.cli.cluster.group_positions import GroupInUse, Positions, store_positions
from logd.coord import paths
from tests.coord.registries.rig import RegistryCase


class StoreTests(RegistryCase):
    """On a tree in memory."""

    def store(self, group: str, positions: Positions) -> object:
        """What came of it."""
        return self.outcome(Deferred.fromCoroutine(store_positions(self.tree, group, positions)))

    def stored(self, topic: str, partition: int) -> object:
        """A node's data."""
        data, _ = self.outcome(self.tree.get(paths.group_offset("import", topic, partition)))
        return data

    def test_stored(self) -> None:
        """Positions are decimal text where every group's are; the next import replaces them."""
        self.store("import", {("a", 0): 10, ("a", 1): 20, ("b", 0): 0})
        self.store("import", {("a", 0): 15})
        self.assertEqual([self.stored("a", 0), self.stored("a", 1), self.stored("b", 0)], [b"15", b"20", b"0"])

    def test_group_in_use(self) -> None:
        """The positions of a group with live consumers are left alone."""
        self.outcome(self.tree.create(paths.group_consumer("import", "c1"), b"{}", makepath=True))
        doing = Deferred.fromCoroutine(store_positions(self.tree, "import", {("a", 0): 10}))
        self.settle()
        self.failureResultOf(doing, GroupInUse)
        self.assertIsNone(self.outcome(self.tree.exists(paths.group_offset("import", "a", 0))))
