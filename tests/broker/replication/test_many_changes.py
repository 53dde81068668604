"""Tests of the in-sync sets of many partitions that change at the same time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twisted.internet.defer import Deferred

from logd.coord.records import SetData
from tests.broker.replication.test_replicas import ReplicaTestCase


class ManyChangesTests(ReplicaTestCase):
    """A broker dies that follows many partitions."""

    def test_the_transactions_are_few(self) -> None:
        """Each leader takes it out of its in-sync set, all of them within some transactions."""
        self.cluster.wait(self.admin.create("many", 60, replicas=3))
        self.cluster.advance(3.0)
        dead = self.cluster.brokers[0]
        sizes: list[int] = []
        for broker in self.cluster.brokers[1:]:
            tree = broker.coordination
            assert tree is not None

            def counting(
                operations: Any, timeout: float | None = None, multi: Callable[..., Deferred[Any]] = tree.multi
            ) -> Deferred[Any]:
                sizes.append(sum(isinstance(each, SetData) for each in operations))
                return multi(operations, timeout)

            tree.multi = counting  # type: ignore[method-assign]
        dead.kill()
        self.cluster.advance(12.0)
        (topic,) = self.cluster.wait(self.admin.metadata(["many"])).topics
        self.assertEqual({tuple(sorted(each.in_sync)) for each in topic.partitions}, {(1, 2)})
        self.assertGreaterEqual(sum(sizes), 60)
        self.assertLess(len(sizes), 20, sizes)
