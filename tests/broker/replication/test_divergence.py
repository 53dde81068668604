"""Tests of replicas whose logs diverge from their leader's."""

from __future__ import annotations

import errno
import os
from typing import Any
from unittest import mock

from logd.broker.replication.follower import FollowerRole
from logd.broker.replication.leader import LeaderRole
from logd.broker.topics.ends_recorder import EndsRecorder
from logd.log.partition import PartitionLog
from logd.protocol.requests.replica_fetch import ReplicaFetch, ReplicaPart
from tests.broker.replication.test_replicas import ReplicaTestCase


class DivergenceTests(ReplicaTestCase):
    """A partition whose messages nobody sees yet, since one of three replicas is dead."""

    least = 3

    def test_a_log_is_cut_in_front_of_the_entry_that_lies_across_the_end_of_an_epoch(self) -> None:
        """After several failovers such an epoch may be one that only the leader has."""
        dead, follower = self.followers
        dead.kill()
        self.cluster.advance(6.0)
        first = self.send(b"first", acks=1).next_position
        self.send(b"second", acks=1)
        self.cluster.advance(1.0)
        log = self.logs()[follower.host]
        role = log.replica
        assert isinstance(role, FollowerRole)
        ends: list[int] = []
        store = follower.store
        assert store is not None
        truncate = store.truncate

        def noted(_: object, log: PartitionLog, position: int, *more: Any, **named: Any) -> None:
            ends.append(position)
            truncate(log, position, *more, **named)

        self.patch(type(store), "truncate", noted)
        role.tasks.truncate(first + 3)
        self.cluster.advance(3.0)
        self.assertEqual((ends, role.trouble), ([first], ""))
        self.assertEqual(len(self.contents()), 1)

    def test_no_end_is_told_before_the_logs_were_compared(self) -> None:
        """An answer may have no room for that yet: the follower would show its own bytes as those of the leader."""
        self.send(b"first", acks=1)
        follower = self.followers[0]
        assert follower.store is not None
        log = self.logs()[self.leader.host]
        role = log.replica
        assert isinstance(role, LeaderRole)
        part = ReplicaPart("t", 0, role.epoch, log.end + 100, role.epoch, log.end + 100)
        connection = self.cluster.wait(self.cluster.connect(self.leader.address))
        told = []
        for room in (0, 1000):
            request = ReplicaFetch(follower.store.broker_id, follower.store.instance, 0, room, (part,))
            answer = self.cluster.wait(connection.request(request))
            told += [(each.error, each.epoch_end) for each in answer.parts]
        self.assertEqual(told, [(0, log.end)])
        connection.abort()


class CutTests(ReplicaTestCase):
    """A former leader with a message that nobody else has, and a leader that has gone on without it."""

    def setUp(self) -> None:
        """Kill the leader once it alone has the message."""
        super().setUp()
        self.send(b"everywhere")
        self.cut = former = self.leader
        self.folder = self.logs()[former.host].folder
        for follower in self.followers:
            self.cluster.network.block(former.host, follower.host)
        self.send(b"only here", acks=1)
        former.kill()
        self.cluster.network.heal()
        self.send(b"of the next leader")

    def check_it_is_cut(self) -> None:
        """Check that all logs are equal and in sync."""
        self.assertIsNone(self.logs()[self.cut.host].offline)
        self.assertEqual((self.in_sync(), len(self.contents())), ((0, 1, 2), 1))
        (content,) = self.contents()
        self.assertIn(b"of the next leader", content)
        self.assertNotIn(b"only here", content)

    def test_a_log_is_cut(self) -> None:
        """Nobody has seen the message."""
        self.cut.start()
        self.cluster.advance(5.0)
        self.check_it_is_cut()

    def test_a_log_is_cut_once_its_disk_has_room(self) -> None:
        """It was full, as the truncation writes a checkpoint first."""
        self.cut.start()
        self.cut.files.room = 0
        self.cluster.advance(20.0)
        log = self.logs()[self.cut.host]
        self.assertIn("It is tried again", str(log.offline))
        self.assertNotIsInstance(log.replica, FollowerRole)  # else it would not see whether it is to lead
        self.cut.files.room = None
        self.cluster.advance(10.0)
        self.check_it_is_cut()

    def test_a_log_is_cut_once_files_can_be_opened(self) -> None:
        """Too many were open, or memory was short; in the end also when the log was to be served again."""
        opening, listing = f"open {self.folder}/checkpoint.tmp", f"list {self.folder}"
        for code, calls in (
            (errno.EMFILE, [opening]),
            (errno.ENOMEM, [opening]),
            (errno.EMFILE, [opening, listing]),
        ):
            self.setUp()
            self.cut.start()
            errors = self.cut.files.errors = {call: [OSError(code, os.strerror(code))] for call in calls}
            self.cluster.advance(15.0)
            self.assertEqual([*errors.values()], [[]] * len(calls))
            self.check_it_is_cut()

    def test_a_disk_that_fails_afterwards_is_left_to_a_person(self) -> None:
        """The log stays offline, and its reason says so."""
        self.cut.start()
        errors = self.cut.files.errors
        errors[f"open {self.folder}/checkpoint.tmp"] = [OSError(errno.EMFILE, os.strerror(errno.EMFILE))]
        errors[f"list {self.folder}"] = [OSError(errno.EIO, os.strerror(errno.EIO))]
        self.cluster.advance(20.0)
        reason = str(self.logs()[self.cut.host].offline)
        self.assertIn("Input/output error. Check the disk; then restart the broker", reason)


class RefusedTruncationTests(ReplicaTestCase):
    """A follower with bytes that readers have seen, and that its leader does not have."""

    def test_the_tree_vouches_for_the_log_as_before(self) -> None:
        """Nothing was cut off."""
        first = self.send(b"first").next_position
        self.send(b"second")
        self.cluster.advance(130.0)  # the stored ends are written
        log = self.logs()[self.followers[0].host]
        role = log.replica
        assert isinstance(role, FollowerRole)
        with mock.patch.object(EndsRecorder, "lower") as lower:
            role.tasks.truncate(first)
            self.cluster.advance(0.5)
        self.assertIn("readers have seen it", role.trouble)
        self.assertEqual(lower.call_count, 0)

    def test_the_remedy_is_named_and_helps(self) -> None:
        """The partition's folder is removed, and the replica is copied anew."""
        first = self.send(b"first").next_position
        self.send(b"second")
        self.cluster.advance(1.0)
        follower = self.followers[0]
        log = self.logs()[follower.host]
        role = log.replica
        assert isinstance(role, FollowerRole)
        assert follower.store is not None
        leader, me, folder = role.leader, follower.store.broker_id, log.folder
        role.tasks.truncate(first)
        self.cluster.advance(0.5)
        self.assertIn("readers have seen it", role.trouble)
        remedy = f"copied anew from broker {leader}, stop broker {me}, remove {folder}, and start it again"
        self.assertIn(remedy, role.trouble)
        self.cluster.wait(follower.stop())
        for name in follower.files.list(folder):
            follower.files.remove(f"{folder}/{name}")
        follower.files.remove_directory(folder)
        follower.files.sync_directory(folder.rpartition("/")[0])
        self.cluster.advance(3.0)
        follower.start()
        self.cluster.advance(5.0)
        self.assertEqual(len(self.contents()), 1)
        self.assertEqual(self.in_sync(), (0, 1, 2))
        self.assertIn(b"second", self.contents().pop())


class UncleanElectionTests(ReplicaTestCase):
    """A replica that lacks messages was let lead, and the others have cut off what only they had."""

    def setUp(self) -> None:
        """Have one broker miss messages whose ends are in the tree, and lead while the others are away."""
        super().setUp()
        leader, (other, behind) = self.leader, self.followers
        self.send(b"first")
        behind.kill()
        self.cluster.advance(6.0)
        for _ in range(20):
            self.send(b"lost" * 100)
        self.cluster.advance(130.0)  # the stored ends are written
        for broker in (leader, other):
            broker.kill()
        self.cluster.advance(10.0)
        behind.start()
        self.cluster.advance(10.0)
        assert behind.store is not None
        self.cluster.wait(self.admin.elect("t", {0: behind.store.broker_id}, unclean=True))
        self.cluster.advance(5.0)
        self.elected, self.cut = behind, (leader, other)
        for broker in self.cut:
            broker.start()
        self.cluster.advance(10.0)
        self.send(b"after")
        self.cluster.advance(2.0)
        self.assertEqual(self.in_sync(), (0, 1, 2))

    def test_a_log_that_was_cut_is_not_lost_at_the_next_start(self) -> None:
        """The tree vouched for what is gone."""
        (broker, _) = self.cut
        broker.kill()
        broker.start()
        self.cluster.advance(0.5)
        self.assertIsNone(self.logs()[broker.host].offline)

    def test_a_log_that_was_cut_can_lead_after_a_restart(self) -> None:
        """The one that was elected is gone for good."""
        for broker in (*self.cut, self.elected):
            broker.kill()
        self.cluster.advance(10.0)
        for broker in self.cut:
            broker.start()
        self.cluster.advance(20.0)
        self.assertIn(self.leader, self.cut)
        self.assertIn(b"after", self.contents().pop())


class BegunAgainTests(ReplicaTestCase):
    """A follower of which nothing is its leader's: what the leader has of it lies before the log's start here."""

    segment_bytes = 300

    def test_its_new_log_is_whole(self) -> None:
        """Its stored end was that of its former log: a restart would take the new one for lost, and lose it."""
        first, second, third = self.cluster.wait(self.admin.describe("t")).partitions[0].replicas
        brokers = self.cluster.brokers
        self.send(b"everywhere")
        for number in (second, third):
            brokers[number].kill()
        self.cluster.advance(6.0)
        for _ in range(10):
            self.send(b"x" * 200)
        store = brokers[first].store
        assert store is not None
        log = store.log("t", 0)
        assert log is not None
        store.delete_before(log, log.end - 300, lambda error: None)
        self.cluster.advance(130.0)  # the stored ends are written
        brokers[first].kill()
        for number in (second, third):
            brokers[number].start()
        self.cluster.advance(10.0)
        self.cluster.wait(self.admin.elect("t", unclean=True))
        self.cluster.advance(5.0)
        brokers[first].start()
        self.cluster.advance(10.0)
        self.assertEqual((self.in_sync(), len(self.contents())), ((0, 1, 2), 1))
        for number in (second, third):
            self.cluster.wait(brokers[number].stop())
            self.cluster.advance(6.0)
        self.cluster.wait(brokers[first].stop())
        brokers[first].start()
        self.cluster.advance(5.0)
        self.assertIsNone(self.logs()[brokers[first].host].offline)
        self.assertIs(self.leader, brokers[first])
