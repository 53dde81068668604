"""Tests of reassignments that are asked for, or cancelled, while others are under way."""

from __future__ import annotations

from types import SimpleNamespace
from unittest import mock

from twisted.internet.defer import gatherResults

from tests.broker.replication.control.test_operations import OperationsTestCase


class MeanwhileTests(OperationsTestCase):
    """Reassignments by the requests of an Admin."""

    def replicas(self, topic: str) -> list[tuple[int, ...]]:
        """Return the brokers that store each partition."""
        return [each.replicas for each in self.cluster.wait(self.admin.describe(topic)).partitions]

    def test_a_cancelled_one_of_which_the_broker_knows_the_former_replicas_alone(self) -> None:
        """The controller has just added them: they would stay for good."""
        self.cluster.wait(self.admin.create("one", 1))
        asked = self.cluster.brokers[0].broker
        assert asked is not None
        operations = asked.operations
        former = operations.entry("one")
        before = former.partitions[0]
        self.cluster.wait(self.admin.reassign("one", {0: (*before, before[0] % 2 + 1)}))
        self.cluster.brokers[before[0] % 2 + 1].kill()
        self.cluster.advance(3.0)
        self.assertEqual(len(operations.entry("one").partitions[0]), 2)
        with mock.patch.object(operations, "_topics", SimpleNamespace(get=lambda topic: former)):
            (back,) = self.cluster.wait(operations.cancel("one"))
        self.cluster.advance(3.0)
        self.assertEqual((back.wanted, self.partition("one").replicas), (before, before))
        self.assertEqual(self.cluster.wait(self.admin.cancel_reassignment("one")).moved, ())

    def test_a_cancelled_one_that_was_not_begun_is_over_though_a_replica_is_dead(self) -> None:
        """Nothing was changed, so nobody has to come back for it."""
        first, second, third = self.partition().replicas
        self.cluster.brokers[third].kill()
        self.cluster.advance(6.0)
        running = [each.broker for each in self.cluster.brokers if each.broker is not None]
        for broker in running:
            broker.controller.stop()
        self.cluster.wait(self.admin.reassign("t", {0: (first, second)}))
        (back,) = self.cluster.wait(self.admin.cancel_reassignment("t")).moved
        self.assertEqual(back.wanted, (first, second, third))
        running[0].controller.start()
        self.cluster.advance(5.0)
        self.assertEqual(self.cluster.wait(self.admin.cancel_reassignment("t")).moved, ())
        self.assertEqual(self.partition().replicas, (first, second, third))

    def test_a_cancelled_one_goes_back_to_where_the_one_before_it_has_led(self) -> None:
        """The reassignment of another partition of the topic goes on all the time."""
        self.cluster.wait(self.admin.create("two", 2))
        (target,) = {0, 1, 2}.difference(*self.replicas("two"))
        (first,), (second,) = self.replicas("two")
        self.cluster.brokers[target].kill()  # it is live for some seconds yet, and copies nothing
        self.cluster.wait(self.admin.reassign("two", {0: (second,), 1: (target,)}))
        self.cluster.advance(8.0)
        self.assertEqual(self.replicas("two"), [(second,), (second, target)])
        self.cluster.wait(self.admin.reassign("two", {0: (first, second)}))
        self.cluster.brokers[first].kill()
        self.cluster.advance(1.5)
        moved = self.cluster.wait(self.admin.cancel_reassignment("two")).moved
        self.assertEqual([each.wanted for each in moved], [(second,), (second,)])

    def test_two_that_are_asked_for_at_the_same_time(self) -> None:
        """Each is for another partition, and none takes the place of the other."""
        self.cluster.wait(self.admin.create("two", 2))
        (target,) = {0, 1, 2}.difference(*self.replicas("two"))
        self.cluster.wait(
            gatherResults([self.admin.reassign("two", {number: (target,)}) for number in (0, 1)], consumeErrors=True)
        )
        self.cluster.advance(10.0)
        self.assertEqual(self.replicas("two"), [(target,), (target,)])
