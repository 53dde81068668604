"""Tests of logd.broker.replication.replica: a broker that is to lead while its log is offline."""

from __future__ import annotations

from logd.broker.replication.leader import LeaderRole
from logd.coord.partition_state import PartitionState
from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.files import MemoryFiles
from tests.broker.replication.test_replicas import ReplicaTestCase


class OfflineLeaderTestCase(ReplicaTestCase):
    """A partition of three replicas, of which two are in sync, the leader and ``other``."""

    def setUp(self) -> None:
        """Send something that may not be lost."""
        super().setUp()
        self.send(b"before")
        self.first, (self.spare, self.other) = self.leader, self.followers
        self.spare.kill()
        self.cluster.advance(10.0)
        self.assertEqual(len(self.state(self.first).in_sync), 2)

    def fail_sync(self, broker: MemoryBroker) -> None:
        """Let the log of a broker go offline with the next message, which need not be stored."""
        broker.files.fail_syncs = 1
        self.send(b"perhaps lost", acks=0)
        self.cluster.advance(0.2)
        self.assertIsNotNone(self.logs()[broker.host].offline)

    def start_again(self, *brokers: MemoryBroker) -> None:
        """Start brokers again, and give them time to come into sync."""
        for broker in brokers:
            broker.kill()
            broker.start()
        self.cluster.advance(10.0)

    def check_all_is_well(self) -> None:
        """Start the third broker, and check that all have everything that was acknowledged."""
        self.start_again(self.spare)
        self.assertEqual(self.state(self.leader).in_sync, (0, 1, 2))
        (content,) = self.contents()
        self.assertIn(b"before", content)

    def state(self, broker: MemoryBroker) -> PartitionState:
        """Return the partition's state as a broker knows it."""
        assert broker.broker is not None
        known = broker.broker.replication.states.get("t", 0)
        assert known is not None
        return known.state


class ChosenTests(OfflineLeaderTestCase):
    """The leader dies while the log of the other one is offline, which is chosen."""

    def setUp(self) -> None:
        """Let it be chosen."""
        super().setUp()
        self.fail_sync(self.other)
        self.first.kill(power_lost=True)
        self.cluster.advance(8.0)
        self.assertNotIsInstance(self.logs()[self.other.host].replica, LeaderRole)
        self.assertEqual(self.state(self.other).leader, self.other.settings.id)

    def test_it_stays_in_sync_while_no_other_member_is_live(self) -> None:
        """The disk of the other one may be lost; then this log alone has what was acknowledged, after a restart."""
        self.first.files = MemoryFiles()
        self.start_again(self.first)
        self.start_again(self.other)
        self.check_all_is_well()

    def test_it_gives_way_once_another_member_is_live_again(self) -> None:
        """Nobody has to restart it for the partition to be led."""
        self.start_again(self.first)
        self.assertIs(self.leader, self.first)
        self.send(b"after")
        self.start_again(self.other)
        self.check_all_is_well()


class OfflineLeaderTests(OfflineLeaderTestCase):
    """The log of the leader goes offline."""

    def test_a_successor_that_has_died_may_have_lost_its_disk(self) -> None:
        """It is registered for a while, and is given the leadership; then the former leader has it again."""
        self.other.kill(power_lost=True)
        self.fail_sync(self.first)
        self.cluster.advance(8.0)
        self.other.files = MemoryFiles()
        self.start_again(self.other)
        self.start_again(self.first)
        self.check_all_is_well()

    def test_a_successor_that_is_live_shows_new_messages_at_once(self) -> None:
        """It forgets the former leader, whose log need not have them, as soon as it leads."""
        self.first.files.fail_syncs = 1
        self.send(b"perhaps lost", acks=0)
        while not isinstance(self.logs()[self.other.host].replica, LeaderRole):
            self.cluster.advance(0.01)
        self.assertEqual(self.state(self.other).last, (self.first.settings.id,))
        self.cluster.advance(0.05)
        self.assertEqual(self.state(self.other).last, ())
        self.send(b"after")
        self.start_again(self.first)
        self.check_all_is_well()

    def test_leadership_does_not_go_to_and_fro_between_logs_that_are_offline(self) -> None:
        """Each gives way once; the one that is served first, after a restart, leads."""
        self.fail_sync(self.other)
        self.fail_sync(self.first)
        self.cluster.advance(0.5)
        state = self.state(self.first)
        self.cluster.advance(5.0)
        self.assertEqual(self.state(self.first), state)
        self.start_again(self.other)
        self.assertIs(self.leader, self.other)
        self.send(b"after")
        self.start_again(self.first)
        self.check_all_is_well()
