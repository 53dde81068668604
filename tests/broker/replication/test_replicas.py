"""Tests of replicated topics on three brokers in memory: leaders, followers, and what clients are told."""

from __future__ import annotations

from typing import Any, ClassVar

from twisted.trial.unittest import SynchronousTestCase

from logd.broker.replication.follower import FollowerRole
from logd.broker.replication.leader import LeaderRole
from logd.config import LogSettings
from logd.config.replication import ReplicationSettings
from logd.config.security import SecuritySettings
from logd.errors import (
    ClusterAuthorizationFailed,
    DeliveryFailed,
    InvalidTopic,
    NotEnoughReplicas,
    NotLeader,
)
from logd.log.epochs.mark import MARK_BYTES
from logd.log.partition import PartitionLog
from logd.protocol.requests.fetch_session import EXACT, FetchWaitV1, MovedPart, NewPart
from logd.protocol.requests.repair import Repair
from logd.protocol.requests.replica_fetch import FlushedPart, ReplicaFetch, ReplicaPart, ReplicaProgress
from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.cluster import MemoryCluster
from logd.testing.memory.files import MemoryFiles
from tests.simulation.replication.contents import bytes_of


class ReplicaTestCase(SynchronousTestCase):
    """Three brokers."""

    least = 1
    lag_ms = 1_000
    #: Bytes above which an append begins a new segment, and further settings of the brokers.
    segment_bytes = 1 << 30
    more: ClassVar[dict[str, Any]] = {}

    def setUp(self) -> None:
        """Start them, and create a topic that each of them stores."""
        self.cluster = MemoryCluster(
            brokers=3,
            zookeeper_session_ms=4_000,
            log=LogSettings(min_insync_replicas=self.least, segment_bytes=self.segment_bytes),
            replication=ReplicationSettings(replica_lag_ms=self.lag_ms, leader_balance_ms=-1),
            **self.more,
        )
        self.cluster.wait(self.cluster.start())
        self.admin = self.cluster.admin()
        self.cluster.wait(self.admin.create("t", 1, replicas=3))
        self.cluster.advance(1.0)

    def logs(self, topic: str = "t") -> dict[str, PartitionLog]:
        """Return the log of partition 0 on each running broker, by host."""
        found = {}
        for broker in self.cluster.brokers:
            log = None if broker.store is None else broker.store.log(topic, 0)
            if log is not None:
                found[broker.host] = log
        return found

    @property
    def leader(self) -> MemoryBroker:
        """The broker that leads partition 0."""
        hosts = [host for host, log in self.logs().items() if isinstance(log.replica, LeaderRole)]
        (leader,) = [broker for broker in self.cluster.brokers if broker.host in hosts]
        return leader

    @property
    def followers(self) -> list[MemoryBroker]:
        """The other brokers that run."""
        leader = self.leader
        return [broker for broker in self.cluster.brokers if broker is not leader and broker.running]

    def send(self, payload: bytes, **settings: Any) -> Any:
        """Send a message; return where it is."""
        return self.cluster.wait(self.cluster.producer(**{"acks": -1, **settings}).send("t", payload), 100.0)

    def contents(self) -> set[bytes]:
        """Return the different contents of the logs."""
        found = set()
        for broker in self.cluster.brokers:
            log = None if broker.store is None else broker.store.log("t", 0)
            if log is not None:
                found.add(bytes_of(broker, log, log.start, log.end))
        return found

    def in_sync(self) -> tuple[int, ...]:
        """Return the in-sync replicas as clients are told."""
        (topic,) = self.cluster.wait(self.admin.metadata(["t"])).topics
        return tuple(sorted(topic.partitions[0].in_sync))


class ReplicaTests(ReplicaTestCase):
    """A partition of three replicas."""

    def test_all_replicas_have_what_is_acknowledged(self) -> None:
        """With acks=-1 it is on every disk; the logs are equal, byte for byte."""
        sent = self.send(b"hello")
        self.assertEqual({log.flushed_end for log in self.logs().values()}, {sent.next_position})
        self.assertEqual(len(self.contents()), 1)
        self.cluster.advance(1.0)
        self.assertEqual({log.visible_end for log in self.logs().values()}, {sent.next_position})

    def test_a_follower_leads_once_the_leader_is_dead(self) -> None:
        """It has everything acknowledged, and the former leader follows it when it is back."""
        self.send(b"before")
        killed = self.leader
        killed.kill(power_lost=True)
        self.send(b"after")
        self.assertIsNot(self.leader, killed)
        killed.start()
        self.cluster.advance(5.0)
        self.assertEqual(self.in_sync(), (0, 1, 2))
        self.assertEqual(len(self.contents()), 1)
        self.assertIsInstance(self.logs()[killed.host].replica, FollowerRole)

    def test_a_leader_that_is_back_at_once_does_not_go_on_in_its_epoch(self) -> None:
        """Its followers may have entries of that epoch which it has lost."""
        self.send(b"before")
        leader = self.leader
        epoch = self.logs()[leader.host].leadership.epoch
        leader.kill(power_lost=True)
        leader.start()
        self.send(b"after")
        self.assertGreater(self.logs()[self.leader.host].leadership.epoch, epoch)
        self.cluster.advance(2.0)
        self.assertEqual(len(self.contents()), 1)

    def test_an_orderly_stop_hands_the_leadership_over(self) -> None:
        """Nobody waits for a session to end."""
        self.send(b"before")
        leader = self.leader
        self.cluster.wait(leader.stop())
        begin = self.cluster.clock.seconds()
        self.send(b"after")
        self.assertLess(self.cluster.clock.seconds() - begin, 1.0)

    def test_a_new_empty_disk_is_filled(self) -> None:
        """Without any special step, and under the same id; nothing is held as lost."""
        self.send(b"before")
        (follower, _) = self.followers
        follower.kill()
        follower.files = MemoryFiles(now=self.cluster.clock.seconds)
        self.send(b"meanwhile")
        follower.start()
        self.cluster.advance(8.0)
        self.assertEqual(self.in_sync(), (0, 1, 2))
        self.assertEqual(len(self.contents()), 1)

    def test_a_slow_follower_leaves_the_in_sync_set(self) -> None:
        """Producers wait no longer than replica.lag.ms for it; it is back once it has caught up."""
        self.send(b"before")
        (follower, _) = self.followers
        clock = follower.clock
        assert clock is not None
        producer = self.cluster.producer(acks=-1)
        self.cluster.wait(producer.send("t", b"first"))
        clock.pause()
        begin = self.cluster.clock.seconds()
        self.cluster.wait(producer.send("t", b"meanwhile"))
        self.assertLess(self.cluster.clock.seconds() - begin, 3.0)
        self.assertEqual(len(self.logs()[self.leader.host].leadership.in_sync), 2)
        clock.resume()
        self.cluster.advance(5.0)
        self.assertEqual(self.in_sync(), (0, 1, 2))

    def test_a_number_of_copies(self) -> None:
        """acks=2 waits for one follower, and not for a second one that stands still; acks=3 waits for both."""
        self.send(b"before")
        (follower, _) = self.followers
        clock = follower.clock
        assert clock is not None
        two, three = self.cluster.producer(acks=2), self.cluster.producer(acks=3, delivery_timeout=60.0)
        self.cluster.wait(two.send("t", b"first"))
        self.cluster.wait(three.send("t", b"second"))
        clock.pause()
        begin = self.cluster.clock.seconds()
        self.cluster.wait(two.send("t", b"third"))
        self.assertLess(self.cluster.clock.seconds() - begin, 0.5)
        waiting = three.send("t", b"fourth")
        self.cluster.advance(0.5)
        self.assertNoResult(waiting)
        clock.resume()
        self.cluster.wait(waiting)
        self.assertLess(self.cluster.clock.seconds() - begin, 5.0)

    def test_more_copies_than_replicas_in_sync(self) -> None:
        """They are refused at once, as they cannot be made."""
        sending = self.cluster.producer(acks=4, delivery_timeout=1.0).send("t", b"x")
        error = self.assertRaises(DeliveryFailed, self.cluster.wait, sending)
        self.assertIn("than min.insync.replicas; `logd topics describe` shows them", str(error))

    def test_a_topic_that_is_made_again_begins_anew(self) -> None:
        """Its states and logs are those of another topic."""
        self.send(b"before")
        self.cluster.wait(self.admin.delete("t"))
        self.cluster.advance(2.0)
        self.assertEqual(self.logs(), {})
        self.cluster.wait(self.admin.create("t", 1, replicas=2))
        self.cluster.advance(2.0)
        self.assertEqual(len(self.logs()), 2)
        self.assertEqual(len(self.contents()), 1)
        self.send(b"after")

    def test_too_many_replicas_are_refused(self) -> None:
        """There have to be brokers for them."""
        self.failureResultOf(self._creation("u", 4)).trap(InvalidTopic)

    def _creation(self, topic: str, replicas: int) -> Any:
        creating = self.admin.create(topic, 1, replicas=replicas)
        self.cluster.advance(1.0)
        return creating

    def test_a_sound_replica_needs_no_repair(self) -> None:
        """The answer is that of any other log; what comes of damage is in the tests of healing."""
        self.send(b"hello")
        connection = self.cluster.wait(self.cluster.connect(self.leader.address))
        answer = self.cluster.wait(connection.request(Repair("t", 0)))
        self.assertEqual((answer.error, answer.damages, answer.checked_to), (0, 0, answer.end))
        connection.abort()

    def test_messages_below_the_leaders_start_are_deleted_on_followers(self) -> None:
        """A log begins at the same position everywhere, sooner or later."""
        self.send(b"one")
        position = self.send(b"two").first_id
        leader = self.leader
        assert leader.store is not None
        outcome: list[Any] = []
        leader.store.delete_before(self.logs()[leader.host], position, outcome.append)
        self.cluster.advance(1.0)
        self.send(b"three")
        self.cluster.advance(1.0)
        self.assertEqual(outcome, [None])
        self.assertEqual({log.start for log in self.logs().values()}, {position})


class FetchSessionTests(ReplicaTestCase):
    """Clients with a fetch session read from the leader alone."""

    def begin(self, broker: MemoryBroker, offset: int, wait_ms: int) -> Any:
        """Begin a session that watches the partition; return the connection and the waiting answer."""
        connection = self.cluster.wait(self.cluster.connect(broker.address))
        self.addCleanup(connection.abort)
        part = NewPart("t", 7, 0, 0, offset, 10_000, EXACT)
        return connection, connection.request(FetchWaitV1(1, 0, wait_ms, 1, 0, (part,)))

    def error(self, answering: Any) -> int:
        """Return the error of an answer's only part."""
        (part,) = self.cluster.wait(answering).parts
        return int(part.error)

    def test_a_follower_does_not_answer(self) -> None:
        """It may show less than its leader has shown, and may be the leader of nobody any more."""
        self.send(b"before")
        self.cluster.advance(1.0)
        for follower in self.followers:
            for offset, wait_ms in ((0, 0), (0, 1_000), (self.logs()[follower.host].end, 60_000)):
                _, answering = self.begin(follower, offset, wait_ms)
                self.assertEqual(self.error(answering), NotLeader.code)

    def test_a_deposed_leader_answers_no_more(self) -> None:
        """The session that it has gone on with is told, whether it waits or asks for what it knows."""
        sent = self.send(b"before")
        leader = self.leader
        connection, answering = self.begin(leader, sent.next_position, 60_000)
        assert leader.coordination is not None
        leading, link = self.logs()[leader.host], leader.coordination.link
        link.reachable = False
        link.cut()
        self.cluster.advance(6.0)
        link.reachable = True
        self.cluster.advance(3.0)
        self.assertNotIsInstance(leading.replica, LeaderRole)
        self.assertEqual(self.error(answering), NotLeader.code)
        part = MovedPart(7, 0, 10_000, EXACT)
        again = connection.request(FetchWaitV1(1, 1, 0, 1, 0, (), (part,)))
        self.assertEqual(self.error(again), NotLeader.code)


class LeastTests(ReplicaTestCase):
    """A partition that demands two replicas in sync."""

    least = 2

    def test_producers_are_told_when_there_are_too_few(self) -> None:
        """And nothing new is visible, though a producer with acks=1 may go on."""
        self.send(b"before")
        leader = self.leader
        for follower in self.followers:
            follower.kill()
        self.cluster.advance(6.0)
        sending = self.cluster.producer(acks=-1, delivery_timeout=2.0).send("t", b"refused")
        self.cluster.advance(3.0)
        failure = self.failureResultOf(sending, DeliveryFailed)
        self.assertIsInstance(failure.value.__cause__, NotEnoughReplicas)
        log = self.logs()[leader.host]
        before = log.visible_end
        self.send(b"unseen", acks=1)
        self.cluster.advance(1.0)
        self.assertEqual(log.visible_end, before)

    def test_the_last_members_may_lead(self) -> None:
        """A replica that left while the set was too small has everything visible."""
        sent = self.send(b"before")
        first = self.leader
        others = self.followers
        for follower in others:
            follower.kill()
        self.cluster.advance(6.0)
        first.kill()
        self.cluster.advance(6.0)
        others[0].start()
        others[1].start()
        self.cluster.advance(6.0)
        self.assertIn(self.leader, others)
        self.assertGreaterEqual(self.logs()[self.leader.host].visible_end, sent.next_position)
        self.send(b"after")


class SecuredTests(SynchronousTestCase):
    """A cluster that demands rights: brokers copy as the user that is theirs alone."""

    def setUp(self) -> None:
        """Start it, and create a topic."""
        security = SecuritySettings(security_required=True, security_superusers="root")
        self.cluster = MemoryCluster(brokers=2, security=security)
        self.cluster.wait(self.cluster.start())
        broker = self.cluster.brokers[0].broker
        assert broker is not None
        self.cluster.wait(broker.administration.create("t", 1, {}, replicas=2))
        self.cluster.advance(3.0)

    def test_brokers_authenticate(self) -> None:
        """The follower has what the leader has."""
        ends = set()
        for broker in self.cluster.brokers:
            assert broker.store is not None
            log = broker.store.log("t", 0)
            assert log is not None
            ends.add((log.end, log.visible_end))
        self.assertEqual(ends, {(MARK_BYTES, MARK_BYTES)})

    def test_nobody_else_may_follow(self) -> None:
        """A client that claims to be a broker is refused, and what it says it has flushed counts for nothing."""
        for broker in self.cluster.brokers:
            connection = self.cluster.wait(self.cluster.connect(broker.address))
            part = ReplicaPart("t", 0, 0, 0, -1, 0)
            answer = self.cluster.wait(connection.request(ReplicaFetch(1, "i", 0, 1000, (part,))))
            self.assertEqual(answer.error, ClusterAuthorizationFailed.code)
            connection.send_only(ReplicaProgress((FlushedPart("t", 0, 0, 1 << 40),)))
            connection.abort()
        self.cluster.advance(1.0)


class HostileTests(ReplicaTestCase):
    """Requests of those who are no replicas, in a cluster that is open to whoever can connect."""

    def ask(self, broker: int, *parts: ReplicaPart) -> list[tuple[str, int]]:
        """Send a ReplicaFetch to the leader; return topic and error of each part of the answer."""
        connection = self.cluster.wait(self.cluster.connect(self.leader.address))
        answer = self.cluster.wait(connection.request(ReplicaFetch(broker, "i", 0, 1000, parts)))
        connection.abort()
        return [(part.topic, part.error) for part in answer.parts]

    def test_no_memory_is_kept_for_them(self) -> None:
        """Neither for brokers that are no replicas, nor for partitions that are not led here."""
        role = self.logs()[self.leader.host].replica
        assert isinstance(role, LeaderRole)
        before = set(role.followers)
        epoch = role.epoch
        for broker in (-5, 7, 1 << 30):
            asked = self.ask(broker, ReplicaPart("t", 0, epoch, 0, -1, 0), ReplicaPart("u", 3, 0, 0, -1, 0))
            self.assertEqual({topic for topic, error in asked if error}, {"t", "u"})
        self.assertEqual(set(role.followers), before)

    def test_positions_that_make_no_sense_harm_nothing(self) -> None:
        """Neither those far behind the log's end, nor negative ones, nor epochs that do not exist."""
        sent = self.send(b"before")
        role = self.logs()[self.leader.host].replica
        assert isinstance(role, LeaderRole)
        follower = next(iter(role.followers))
        for position, last, flushed in (
            (1 << 62, 9, 1 << 62),
            (-1, -1, -1),
            (sent.next_position, 1 << 30, 0),
            (5, 0, 5),
        ):
            self.ask(follower, ReplicaPart("t", 0, role.epoch, position, last, flushed))
        self.cluster.advance(2.0)
        self.send(b"after")
        self.cluster.advance(5.0)
        self.assertEqual(self.in_sync(), (0, 1, 2))
        self.assertEqual(len(self.contents()), 1)
