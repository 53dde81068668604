"""Tests of logd.cli.cluster.group_positions: positions stored under a group's name."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.cli.cluster.group_positions import GroupInUse, Positions, store_positions
from logd.coord import paths
from tests.coord.registries.rig import RegistryTestCase


class GroupPositionsTests(RegistryTestCase):
    """``store_positions``, on a tree in memory."""

    def store(self, group: str, positions: Positions) -> object:
        """Store positions, and return the result."""
        return self.outcome(Deferred.fromCoroutine(store_positions(self.tree, group, positions)))

    def stored(self, topic: str, partition: int) -> object:
        """Return the data of a position's node."""
        data, _ = self.outcome(self.tree.get(paths.group_offset("import", topic, partition)))
        return data

    def test_positions_are_stored_as_a_groups_are(self) -> None:
        """Tools for groups then show them, and the next import replaces them."""
        self.store("import", {("a", 0): 10, ("a", 1): 20, ("b", 0): 0})
        self.store("import", {("a", 0): 15})
        self.assertEqual([self.stored("a", 0), self.stored("a", 1), self.stored("b", 0)], [b"15", b"20", b"0"])

    def test_a_group_in_use_is_left_alone(self) -> None:
        """Live consumers would overwrite the positions, or go on from them unexpectedly."""
        self.outcome(self.tree.create(paths.group_consumer("import", "c1"), b"{}", makepath=True))
        doing = Deferred.fromCoroutine(store_positions(self.tree, "import", {("a", 0): 10}))
        self.settle()
        self.failureResultOf(doing, GroupInUse)
        self.assertIsNone(self.outcome(self.tree.exists(paths.group_offset("import", "a", 0))))

    def test_a_group_with_members_among_kafkas_clients_is_left_alone(self) -> None:
        """They commit positions of their own."""
        self.outcome(self.tree.create(paths.group_coordinator("import"), b"1", makepath=True))
        doing = Deferred.fromCoroutine(store_positions(self.tree, "import", {("a", 0): 10}))
        self.settle()
        self.failureResultOf(doing, GroupInUse)
