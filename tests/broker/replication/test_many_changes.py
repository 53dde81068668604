"""Tests of the work for many partitions that change at the same time, and for those that do not change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest import mock

from twisted.internet.defer import Deferred

from logd.broker.replication.control import controller, leader_moves
from logd.broker.replication.leader import LeaderRole
from logd.broker.replication.replica_requests import ReplicaRequests
from logd.coord import paths
from logd.coord.elections import prefer
from logd.coord.records import SetData
from logd.protocol.requests.replica_fetch import ReplicaFetch
from tests.broker.replication.test_replicas import ReplicaTestCase

PARTITIONS = 60


class ManyChangesTests(ReplicaTestCase):
    """A broker dies that follows and leads many partitions."""

    def setUp(self) -> None:
        """Create a topic that each broker stores."""
        super().setUp()
        self.cluster.wait(self.admin.create("many", PARTITIONS, replicas=3))
        self.cluster.advance(3.0)

    def in_sync_sets(self) -> set[tuple[int, ...]]:
        """Return the different in-sync sets of the partitions."""
        (topic,) = self.cluster.wait(self.admin.metadata(["many"])).topics
        return {tuple(sorted(each.in_sync)) for each in topic.partitions}

    def test_the_transactions_are_few(self) -> None:
        """Each leader takes it out of its in-sync set, all of them within some transactions."""
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
        self.assertEqual(self.in_sync_sets(), {(1, 2)})
        self.assertGreaterEqual(sum(sizes), PARTITIONS)
        self.assertLess(len(sizes), 20, sizes)

    def test_no_transaction_of_the_controller_waits_for_the_one_before(self) -> None:
        """There are as many under way as it needs, up to five."""
        dead = self.cluster.brokers[2]
        most, under_way = 0, 0

        def answered(result: Any) -> Any:
            nonlocal under_way
            under_way -= 1
            return result

        for broker in self.cluster.brokers[:2]:
            tree = broker.coordination
            assert tree is not None

            def counting(
                operations: Any, timeout: float | None = None, multi: Callable[..., Deferred[Any]] = tree.multi
            ) -> Deferred[Any]:
                nonlocal most, under_way
                if operations[0].path != paths.CONTROLLER_EPOCH:
                    return multi(operations, timeout)
                under_way += 1
                most = max(most, under_way)
                return multi(operations, timeout).addBoth(answered)

            tree.multi = counting  # type: ignore[method-assign]
        with mock.patch.object(controller, "BATCH", 4):  # for a third of the partitions
            dead.kill()
            self.cluster.advance(12.0)
        self.assertEqual(self.in_sync_sets(), {(0, 1)})
        self.assertEqual((most, under_way), (5, 0))

    def test_leaders_do_not_look_for_a_broker_that_is_away(self) -> None:
        """It may be away for days. All replicas are in sync again once it is back."""
        self.cluster.brokers[0].kill()
        self.cluster.advance(12.0)
        with mock.patch.object(LeaderRole, "look", autospec=True, side_effect=LeaderRole.look) as looks:
            self.cluster.advance(10.0)
        self.assertEqual(looks.call_count, 0)
        self.cluster.brokers[0].start()
        self.cluster.advance(5.0)
        self.assertEqual(self.in_sync_sets(), {(0, 1, 2)})

    def test_partitions_that_the_preferred_leader_leads_are_not_looked_at(self) -> None:
        """The controller looks each second at those that another replica leads."""
        with mock.patch(f"{leader_moves.__name__}.prefer", side_effect=prefer) as looks:
            self.cluster.advance(10.0)
            self.assertEqual(looks.call_count, 0)
            self.cluster.brokers[2].kill()
            self.cluster.advance(12.0)
            looks.reset_mock()
            self.cluster.advance(10.0)
        self.assertLessEqual(looks.call_count, 10 * (PARTITIONS // 3 + 1))


class SlowLeaderTests(ReplicaTestCase):
    """Brokers whose disks take their time."""

    def test_a_follower_asks_once_for_what_is_about_to_be_led(self) -> None:
        """It may know of a leadership before the leader has written the epoch file: its requests are not refused."""
        for broker in self.cluster.brokers:
            broker.kill()
            broker.disk_delay = lambda: 0.2
            broker.start()
        self.cluster.advance(20.0)
        self.send(b"before")
        self.cluster.advance(5.0)
        self.leader.kill()
        named = list[int]()
        fetch = ReplicaRequests.fetch

        def counting(session: ReplicaRequests, request: ReplicaFetch) -> Any:
            named.append(len(request.parts))
            return fetch(session, request)

        with mock.patch.object(ReplicaRequests, "fetch", counting):
            self.cluster.advance(20.0)
        self.assertEqual(len(self.in_sync()), 2)
        # With its log's end, with that again once the epoch file names the epoch, and behind the mark.
        self.assertLessEqual(sum(named), 3, named)
        self.send(b"after")
        self.cluster.advance(2.0)
        self.assertEqual(len({log.end for log in self.logs().values()}), 1)
