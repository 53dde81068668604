"""Tests of what operators ask for, on three brokers in memory: other replicas, drained brokers, elections."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import globalLogPublisher

from logd.broker.replication.leader import LeaderRole
from logd.cli.cluster.reassign import under_way, wait_until_done
from logd.cli.cluster.unclean_elections import losses
from logd.coord.registries.operator_requests import read_reassignments
from logd.errors import InvalidRequest, LogdError, UnknownTopic
from logd.leadership import NO_LEADER
from logd.protocol.requests.metadata import PartitionMetadata
from logd.protocol.requests.replicas.describe_replicas import FOLLOWS, LEADS
from logd.protocol.requests.replicas.operations import MovedPartition
from tests.broker.replication.test_replicas import ReplicaTestCase
from tests.broker.rig import Events


class OperationsTestCase(ReplicaTestCase):
    """Three brokers, and a topic that each of them stores."""

    def failure(self, what: Deferred[Any]) -> BaseException:
        """Wait for a failure, and return it."""
        try:
            self.cluster.wait(what)
        except LogdError as error:
            return error
        self.fail("it did not fail")

    def health(self, number: int) -> tuple[str, int]:
        """Return a broker's status, and the number of partitions there without a leader."""
        broker = self.cluster.brokers[number].broker
        assert broker is not None
        found = broker.health()
        return found["status"], found["replicas"]["leaderless"]

    def partition(self, topic: str = "t") -> PartitionMetadata:
        """Return partition 0 as clients are told of it."""
        (found,) = self.cluster.wait(self.admin.describe(topic)).partitions
        return found


class ReassignmentTests(OperationsTestCase):
    """Reassignments by the requests of an Admin."""

    def test_a_topic_of_one_replica_gets_more(self) -> None:
        """The plan changes nothing; what it says comes true, and the logs are equal."""
        self.cluster.wait(self.admin.create("one", 1))
        self.cluster.wait(self.cluster.producer(acks=1).send("one", b"x" * 1000))
        (first,) = self.partition("one").replicas
        plan = self.cluster.wait(self.admin.reassign("one", replicas=3, plan_only=True))
        (moved,) = plan.moved
        self.assertEqual((moved.replicas, moved.wanted[0], sorted(moved.wanted)), ((first,), first, [0, 1, 2]))
        self.cluster.advance(5.0)
        self.assertEqual(self.partition("one").replicas, (first,))
        self.cluster.wait(self.admin.reassign("one", {0: moved.wanted}, uuid=plan.uuid))
        self.cluster.advance(10.0)
        self.assertEqual(sorted(self.partition("one").in_sync), [0, 1, 2])
        ends = {log.flushed_end for log in self.logs("one").values()}
        self.assertEqual((len(self.logs("one")), len(ends)), (3, 1))
        self.assertEqual(self.cluster.wait(self.admin.reassign("one", replicas=3)).moved, ())

    def test_a_cancelled_one_goes_back(self) -> None:
        """While a new replica cannot catch up, its broker being dead; the replicas are what they were."""
        self.cluster.wait(self.admin.create("one", 1))
        before = self.partition("one").replicas
        other = next(number for number in range(3) if number not in before)
        self.cluster.wait(self.admin.reassign("one", {0: (*before, other)}))
        self.cluster.brokers[other].kill()
        self.cluster.advance(10.0)
        self.assertEqual(self.partition("one").replicas, (*before, other))
        described = self.cluster.wait(self.admin.describe_replicas("one"))
        self.assertEqual({each.wanted for answer in described.values() for each in answer.replicas}, {(*before, other)})
        (left,) = self.cluster.wait(under_way(self.admin, "one")).moved
        self.assertEqual(left.wanted, (*before, other))
        waiting = Deferred.fromCoroutine(wait_until_done(self.cluster.clock, self.admin, "one", [left], quiet=True))
        self.cluster.advance(5.0)
        self.assertNoResult(waiting)
        (back,) = self.cluster.wait(self.admin.cancel_reassignment("one")).moved
        (again,) = self.cluster.wait(self.admin.cancel_reassignment("one")).moved
        self.assertEqual((back.wanted, again.wanted), (before, before))
        self.assertIn("was cancelled", str(self.failure(waiting)))
        self.cluster.advance(3.0)
        self.assertEqual(self.partition("one").replicas, before)
        self.assertEqual(self.cluster.wait(self.admin.cancel_reassignment("one")).moved, ())

    def test_a_replica_that_is_given_up_is_not_taken_back(self) -> None:
        """Its leader knows the new state before the new replicas, and finds it to have everything."""
        number = self.followers[0].settings.id
        assert number is not None
        others = [each for each in self.partition().replicas if each != number]
        wanted: list[Collection[int]] = []
        propose = LeaderRole._propose

        def noted(role: LeaderRole, members: tuple[int, ...]) -> None:
            wanted.append(members)
            propose(role, members)

        self.patch(LeaderRole, "_propose", noted)
        for count in range(5):
            self.send(b"message %d" % count)
            self.cluster.wait(self.admin.reassign("t", {0: others}))
            self.cluster.advance(5.0)
            self.assertEqual((sorted(self.in_sync()), wanted), (others, []))
            self.cluster.wait(self.admin.reassign("t", {0: (*others, number)}))
            self.cluster.advance(5.0)
            self.assertEqual((self.in_sync(), wanted), ((0, 1, 2), [(0, 1, 2)]))
            wanted.clear()

    def test_a_reassignment_has_a_rate_until_it_is_done(self) -> None:
        """The leader sends no more than that to the new replicas."""
        self.cluster.wait(self.admin.create("one", 1))
        for _ in range(10):
            self.cluster.wait(self.cluster.producer(acks=1).send("one", b"x" * 100_000))
        (first,) = self.partition("one").replicas
        other = (first + 1) % 3
        self.cluster.wait(self.admin.reassign("one", {0: (first, other)}, rate=100_000))
        self.cluster.advance(6.0)
        broker = self.cluster.brokers[first].broker
        assert broker is not None
        self.assertGreater(broker.replication.throttle.delay("one"), 0)
        self.assertNotIn(other, self.partition("one").in_sync)
        self.cluster.advance(15.0)
        self.assertIn(other, self.partition("one").in_sync)
        self.assertEqual(broker.replication.throttle._topics, {})

    def test_a_rate_that_comes_later(self) -> None:
        """The first request had none; the second one, in its place, changes nothing but the rate."""
        self.cluster.wait(self.admin.create("one", 1))
        (first,) = self.partition("one").replicas
        other = (first + 1) % 3
        wanted = {0: (other,)}
        self.cluster.wait(self.admin.reassign("one", wanted))
        self.cluster.brokers[other].kill()
        self.cluster.advance(10.0)
        self.assertEqual(self.partition("one").replicas, (first, other))
        self.cluster.wait(self.admin.reassign("one", wanted, rate=100_000))
        self.cluster.advance(3.0)
        broker = self.cluster.brokers[first].broker
        assert broker is not None
        self.assertEqual([*broker.replication.throttle._topics], ["one"])

    def test_a_plan_during_a_reassignment_begins_where_that_leads(self) -> None:
        """A partition that is being copied is not done: it can be asked for again, with another rate, or taken back."""
        self.cluster.wait(self.admin.create("one", 1))
        for _ in range(10):
            self.cluster.wait(self.cluster.producer(acks=1).send("one", b"x" * 100_000))
        (first,) = self.partition("one").replicas
        second, third = (number for number in range(3) if number != first)
        self.cluster.wait(self.admin.reassign("one", {0: (second, third)}, rate=10_000))
        self.cluster.advance(5.0)
        self.assertEqual(self.partition("one").replicas, (first, second, third))
        (again,) = self.cluster.wait(self.admin.reassign("one", plan_only=True, brokers=(second, third))).moved
        self.assertEqual(again.wanted, (second, third))
        self.cluster.wait(self.admin.reassign("one", {0: (first, second, third)}, rate=10_000))
        self.cluster.advance(3.0)
        plan = self.cluster.wait(self.admin.reassign("one", plan_only=True, replicas=3))
        self.assertEqual(plan.moved, (MovedPartition(0, (first, second, third), (first, second, third)),))
        self.cluster.wait(self.admin.reassign("one", {0: plan.moved[0].wanted}, rate=1_000_000))
        self.cluster.advance(10.0)
        self.assertEqual(sorted(self.partition("one").in_sync), [0, 1, 2])
        self.assertEqual(self.cluster.wait(self.admin.reassign("one", plan_only=True, replicas=3)).moved, ())

    def test_partitions_that_are_placed_one_after_another(self) -> None:
        """The request for the first one stands, with its rate."""
        self.cluster.wait(self.admin.create("two", 2))
        (target,) = {0, 1, 2}.difference(*self.replicas("two"))
        self.cluster.brokers[target].kill()  # it is live for some seconds yet, and copies nothing
        for number in (0, 1):
            self.cluster.wait(self.admin.reassign("two", {number: (target,)}, rate=0 if number else 100_000))
            self.cluster.advance(2.0)
        tree = next(each.coordination for each in self.cluster.brokers if each.coordination is not None)
        pending = self.cluster.wait(Deferred.fromCoroutine(read_reassignments(tree)))["two"]
        self.assertEqual((sorted(pending.partitions), pending.rate), ([0, 1], 100_000))
        self.cluster.brokers[target].start()
        self.cluster.advance(15.0)
        self.assertEqual(self.replicas("two"), [(target,), (target,)])

    def replicas(self, topic: str) -> list[tuple[int, ...]]:
        """Return the brokers that store each partition."""
        return [each.replicas for each in self.cluster.wait(self.admin.describe(topic)).partitions]

    def test_what_cannot_be_is_refused(self) -> None:
        """With the reason; nothing is asked of the controller."""
        for wanted in ({0: (0, 7)}, {0: (1, 1)}, {0: ()}, {3: (0, 1)}):
            asking = self.admin.reassign("t", wanted)
            self.assertIsInstance(self.failure(asking), InvalidRequest)
        self.assertIsInstance(self.failure(self.admin.reassign("t", replicas=4)), InvalidRequest)
        self.assertIsInstance(self.failure(self.admin.reassign("t", brokers=(0,), replicas=2)), InvalidRequest)
        self.assertIsInstance(self.failure(self.admin.reassign("t", {0: (0,)}, uuid="other")), UnknownTopic)

    def test_changes_are_recorded(self) -> None:
        """Each record names the request; a plan is no change."""
        events = Events()
        globalLogPublisher.addObserver(events)
        self.addCleanup(globalLogPublisher.removeObserver, events)
        self.cluster.wait(self.admin.reassign("t", replicas=2, plan_only=True))
        self.cluster.wait(self.admin.reassign("t", replicas=2))
        self.cluster.wait(self.admin.drain(1))
        self.cluster.wait(self.admin.elect("t"))
        self.failure(self.admin.elect("none"))
        found = [(each["action"], each["name"], each["result"]) for each in events.events if "principal" in each]
        expected = [
            ("reassign replicas", "t", "done"),
            ("drain broker", "1", "done"),
            ("elect preferred leaders", "t", "done"),
            ("elect preferred leaders", "none", "refused"),
        ]
        self.assertEqual(found, expected)


class LeaderTests(OperationsTestCase):
    """Drained brokers, and elections."""

    def test_a_drained_broker_leads_nothing_until_it_is_undrained(self) -> None:
        """Then an election brings the preferred leader back at once."""
        preferred = self.partition().leader
        self.assertTrue(self.cluster.wait(self.admin.drain(preferred)))
        self.assertFalse(self.cluster.wait(self.admin.drain(preferred)))
        self.cluster.advance(3.0)
        self.assertNotEqual(self.partition().leader, preferred)
        self.cluster.wait(self.admin.elect("t"))
        self.cluster.advance(3.0)
        self.assertNotEqual(self.partition().leader, preferred)
        self.assertTrue(self.cluster.wait(self.admin.drain(preferred, False)))
        self.cluster.advance(5.0)
        self.assertNotEqual(self.partition().leader, preferred)  # leader.balance.ms is off
        self.cluster.wait(self.admin.elect("t", {0: NO_LEADER}))
        self.cluster.advance(3.0)
        self.assertEqual(self.partition().leader, preferred)

    def test_a_draining_broker_gets_no_partitions(self) -> None:
        """Unless there are too few others; then it leads none of them."""
        self.cluster.wait(self.admin.drain(1))
        self.cluster.wait(self.admin.create("two", 6, replicas=2))
        self.cluster.wait(self.admin.create("three", 3, replicas=3))
        self.cluster.wait(self.admin.create("growing", 1, replicas=2))
        self.cluster.wait(self.admin.alter("growing", partitions=6))
        self.cluster.advance(1.0)
        topics = {
            topic.topic: topic for topic in self.cluster.wait(self.admin.metadata(["two", "three", "growing"])).topics
        }
        for name in ("two", "growing"):
            self.assertEqual({frozenset(each.replicas) for each in topics[name].partitions}, {frozenset((0, 2))})
        replicas = [each.replicas for each in topics["three"].partitions]
        self.assertEqual({frozenset(each) for each in replicas}, {frozenset((0, 1, 2))})
        self.assertNotIn(1, [each[0] for each in replicas])
        planned = self.cluster.wait(self.admin.reassign("three", replicas=2, plan_only=True))
        self.assertEqual({frozenset(each.wanted) for each in planned.moved}, {frozenset((0, 2))})
        planned = self.cluster.wait(self.admin.reassign("three", brokers=(0, 1), replicas=2, plan_only=True))
        self.assertEqual({frozenset(each.wanted) for each in planned.moved}, {frozenset((0, 1))})

    def test_a_broker_that_is_away_can_be_drained_if_it_has_replicas(self) -> None:
        """It leads nothing when it is back. An id that nobody has is a mistake, and is told the ids that there are."""
        away = self.partition().replicas[2]
        self.cluster.brokers[away].kill()
        self.cluster.advance(6.0)
        self.assertTrue(self.cluster.wait(self.admin.drain(away)))
        error = self.failure(self.admin.drain(77))
        self.assertIsInstance(error, InvalidRequest)
        live = sorted({*range(3)} - {away})
        self.assertEqual(str(error), f"there is no broker 77; live are {live[0]}, {live[1]}")
        self.assertFalse(self.cluster.wait(self.admin.drain(77, False)))

    def lose_the_leader(self) -> tuple[int, int, int, int]:
        """Kill the only broker with the last message; return it, that with the least, that with more, and its end."""
        first, second, third = self.partition().replicas
        by_id = dict(enumerate(self.cluster.brokers))
        self.send(b"everywhere")
        by_id[second].kill()
        self.cluster.advance(6.0)
        two = self.send(b"on two").next_position
        by_id[third].kill()
        self.cluster.advance(6.0)
        self.lost_end = self.send(b"on one").next_position
        self.cluster.advance(70.0)
        by_id[first].kill()
        by_id[second].start()
        by_id[third].start()
        self.cluster.advance(10.0)
        found = self.partition()
        self.assertEqual((found.leader, found.in_sync), (NO_LEADER, (first,)))
        return first, second, third, two

    def test_an_unclean_election_shows_what_is_lost_and_takes_the_replica_with_the_most(self) -> None:
        """The last leader is gone for good; one of the others has more than the other."""
        first, second, third, two = self.lose_the_leader()
        self.assertEqual(self.health(second), ("degraded", 1))
        described = self.cluster.wait(self.admin.describe_replicas("t"))
        (lost,) = losses([self.partition()], described)
        self.assertEqual((lost.leader, lost.end, lost.complete), (third, two, (first,)))
        self.assertGreaterEqual(lost.known_end, self.lost_end)
        self.assertIn(f"positions {two} to {lost.known_end}", lost.text)
        self.cluster.wait(self.admin.elect("t", {0: lost.leader}, unclean=True))
        self.cluster.advance(5.0)
        self.assertEqual(self.partition().leader, third)
        self.assertEqual(self.health(second), ("ok", 0))
        self.cluster.brokers[first].start()
        self.cluster.advance(10.0)
        self.assertEqual(sorted(self.partition().in_sync), [0, 1, 2])
        self.assertEqual(len(self.contents()), 1)

    def test_who_names_no_replica_gets_the_one_with_the_most_too(self) -> None:
        """As Kafka's tools do: the controller asks the brokers, and tells its log where the leader's log ends."""
        events = Events()
        globalLogPublisher.addObserver(events)
        self.addCleanup(globalLogPublisher.removeObserver, events)
        _, second, third, two = self.lose_the_leader()
        self.cluster.wait(self.admin.elect("t", {0: NO_LEADER}, unclean=True))
        self.cluster.advance(5.0)
        self.assertEqual(self.partition().leader, third)
        self.assertNotEqual(second, third)
        (line,) = events.warnings("unclean")
        self.assertIn(f"Its log ends at {two}, readers were shown positions up to {self.lost_end} at least", line)

    def test_the_log_says_that_a_partition_has_no_leader(self) -> None:
        """As a warning, in words; no broker has the id -1."""
        events = Events()
        globalLogPublisher.addObserver(events)
        self.addCleanup(globalLogPublisher.removeObserver, events)
        first, *_ = self.lose_the_leader()
        (line,) = events.warnings("has no leader")
        self.assertIn(f"since no in-sync replica is live; in sync are [{first}]", line)

    def test_an_election_that_waits_can_be_withdrawn(self) -> None:
        """The broker that was to lead has died: when it is back, what the others have is not given up any more."""
        _, _, third, _ = self.lose_the_leader()
        self.cluster.brokers[third].kill()
        self.cluster.advance(6.0)
        self.cluster.wait(self.admin.elect("t", {0: third}, unclean=True))
        self.cluster.advance(3.0)
        self.assertEqual(self.cluster.wait(self.admin.withdraw_elections("t", [0])), (0,))
        self.assertEqual(self.cluster.wait(self.admin.withdraw_elections("t")), ())
        self.cluster.brokers[third].start()
        self.cluster.advance(10.0)
        self.assertEqual(self.partition().leader, NO_LEADER)
        self.assertIsInstance(self.failure(self.admin.withdraw_elections("t", [7])), InvalidRequest)

    def test_replicas_are_described(self) -> None:
        """Each broker tells of its own log, and the leader of its followers."""
        end = self.send(b"hello").next_position
        self.cluster.advance(1.0)
        described = self.cluster.wait(self.admin.describe_replicas("t"))
        leader = self.partition().leader
        for number, answer in described.items():
            (found,) = answer.replicas
            self.assertEqual(found.role, LEADS if number == leader else FOLLOWS)
            self.assertEqual((found.start, found.visible_end, found.end, found.wanted), (0, end, end, ()))
            if number == leader:
                role = self.logs()[self.leader.host].replica
                assert isinstance(role, LeaderRole)
                followers = {each.broker: each.flushed_end for each in found.followers}
                self.assertEqual(followers, dict.fromkeys(set(described) - {leader}, end))
