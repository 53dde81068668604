"""Tests of changes of the tree that share transactions."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from logd.coord.errors import BadVersion, CoordinationError, NoNode
from logd.coord.records import Check, SetData
from logd.coord.shared_transactions import BATCH, SharedTransactions
from tests.coord.registries.rig import RegistryTestCase


class SharedTransactionsTests(RegistryTestCase):
    """Nodes of a tree that are changed at the same time."""

    def setUp(self) -> None:
        """Make the nodes, and count the transactions."""
        super().setUp()
        self.number = BATCH + 100
        self.outcome(self.tree.create("/topic"))
        for number in range(self.number):
            self.outcome(self.tree.create(f"/n{number}"))
        self.other = self.client()
        self.sizes: list[int] = []
        multi = self.tree.multi

        def counting(operations: Any, timeout: float | None = None) -> Deferred[Any]:
            self.sizes.append(len(operations))
            return multi(operations, timeout)

        self.tree.multi = counting  # type: ignore[method-assign]
        self.transactions = SharedTransactions(self.tree, self.clock)

    def change(self, number: int, version: int = 0, check: str = "/topic") -> Deferred[None]:
        """Change a node."""
        path = f"/n{number}"

        async def is_made() -> bool:
            found, stat = await self.tree.get(path)
            return found == b"new" and stat.version == version + 1

        return self.transactions.make(Check(check), SetData(path, b"new", version), is_made)

    def changed(self) -> set[int]:
        """Return the nodes that have the new value."""
        return {number for number in range(self.number) if self.outcome(self.other.get(f"/n{number}"))[0] == b"new"}

    def test_many_changes_are_few_transactions(self) -> None:
        """The topic is checked once in each."""
        made = [self.change(number) for number in range(self.number)]
        self.settle()
        for each in made:
            self.successResultOf(each)
        self.assertEqual(self.sizes, [BATCH + 1, 101])
        self.assertEqual(len(self.changed()), self.number)

    def test_whatever_goes_wrong_nobody_waits_for_ever(self) -> None:
        """An operation that cannot even be written fails alone, too."""
        multi = self.tree.multi

        def failing(operations: Any, timeout: float | None = None) -> Deferred[Any]:
            if any(getattr(each, "path", "") == "/n1" for each in operations):
                raise ValueError("it cannot be written")
            return multi(operations, timeout)

        self.tree.multi = failing  # type: ignore[method-assign]
        made = [self.change(number) for number in range(3)]
        self.settle()
        self.failureResultOf(made[1], ValueError)
        self.assertEqual(self.changed(), {0, 2})

    def test_one_that_cannot_be_made_fails_alone(self) -> None:
        """The others are made without it, each by itself."""
        made = [self.change(0), self.change(1, version=7), self.change(2, check="/another"), self.change(3)]
        self.settle()
        self.failureResultOf(made[1], BadVersion)
        self.failureResultOf(made[2], NoNode)
        for each in (made[0], made[3]):
            self.successResultOf(each)
        self.assertEqual((self.sizes, self.changed()), ([6, 2, 2, 2, 2], {0, 3}))

    def test_one_that_is_cancelled_is_not_made(self) -> None:
        """Nor does it keep the others from sharing a transaction."""
        made = [self.change(0), self.change(1, version=7), self.change(2)]
        made[1].cancel()
        self.failureResultOf(made[1], CancelledError)
        self.settle()
        for each in (made[0], made[2]):
            self.successResultOf(each)
        self.assertEqual((self.sizes, self.changed()), ([3], {0, 2}))

    def test_a_lost_answer(self) -> None:
        """The changes were made, and are found in the tree; none is made twice."""
        self.tree.link.delay = lambda: 0.05
        made = [self.change(number) for number in range(3)]
        self.settle()
        self.clock.callLater(0.07, self.tree.link.cut)
        self.pass_time(3)
        for each in made:
            self.successResultOf(each)
        self.assertEqual((self.sizes, self.changed()), ([4], {0, 1, 2}))

    def test_a_request_that_is_lost(self) -> None:
        """The changes were not made, and are made again."""
        self.tree.link.delay = lambda: 0.05
        made = [self.change(number) for number in range(3)]
        self.settle()
        self.clock.callLater(0.02, self.tree.link.cut)
        self.pass_time(3)
        for each in made:
            self.successResultOf(each)
        self.assertEqual((self.sizes, self.changed()), ([4, 2, 2, 2], {0, 1, 2}))

    def test_a_tree_that_is_gone(self) -> None:
        """It is not known whether they were made."""
        self.tree.link.delay = lambda: 0.05
        made = [self.change(number) for number in range(2)]

        self.settle()

        def lose() -> None:
            self.tree.link.reachable = False
            self.tree.link.cut()

        self.clock.callLater(0.07, lose)
        self.pass_time(60)
        for each in made:
            self.failureResultOf(each, CoordinationError)
