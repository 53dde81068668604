"""Tests of replicas that lost the epochs of their logs, or have written down one of which no entry came."""

from __future__ import annotations

from typing import Any

from logd.broker.replication.follower import FollowerRole
from logd.broker.replication.leader import LeaderRole
from logd.log.disk.names import EPOCHS, EPOCHS_COPY
from logd.log.epochs.epoch_file import read_epochs
from logd.log.epochs.search import find_epochs
from logd.log.partition import PartitionLog
from logd.log.store.log_store import LogStore
from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.files import MemoryFiles
from tests.broker.replication.test_replicas import ReplicaTestCase


class LostEpochsTests(ReplicaTestCase):
    """A partition of which retention has deleted all marks."""

    least = 2
    segment_bytes = 300

    def setUp(self) -> None:
        """Send messages, and delete the first ones on all brokers."""
        super().setUp()
        for number in range(20):
            self.send(b"message %02d " % number + b"x" * 40)
        leader, outcome = self.leader, list[object]()
        assert leader.store is not None
        log = self.logs()[leader.host]
        leader.store.delete_before(log, log.segment_list.starts[2], outcome.append)
        self.cluster.advance(2.0)
        self.assertEqual(outcome, [None])

    def version(self) -> int:
        """Return the version of the partition's state, as its leader knows it."""
        role = self.logs()[self.leader.host].replica
        assert isinstance(role, LeaderRole)
        return role.state.version

    def lose_epochs(self, broker: MemoryBroker) -> None:
        """Damage the epoch file of a broker that does not run, and the copy."""
        for name in (EPOCHS, EPOCHS_COPY):
            inode = broker.files._inode(f"/data/t-0/{name}")
            inode.data[-2] ^= 1
            inode.sync()

    def test_a_leader_that_is_back_at_once_begins_another_epoch(self) -> None:
        """It does not know in which epochs it has led: followers may have entries of the last one that it has lost."""
        leader = self.leader
        role = self.logs()[leader.host].replica
        assert isinstance(role, LeaderRole)
        leader.kill()
        self.lose_epochs(leader)
        leader.start()
        self.cluster.advance(2.0)
        again = self.logs()[leader.host].replica
        assert isinstance(again, LeaderRole)
        self.assertEqual(again.epoch, role.epoch + 1)
        self.cluster.advance(10.0)
        self.assertEqual(len(self.in_sync()), 3)
        self.assertEqual(len(self.contents()), 1)

    def test_the_only_other_last_member_begins_again(self) -> None:
        """It does not wait for ever until it does not count: nobody but itself can say that it does not."""
        leader, (other, last) = self.leader, self.followers
        other.kill()
        self.cluster.advance(6.0)
        last.kill()
        self.cluster.advance(6.0)
        number = last.settings.id
        role = self.logs()[leader.host].replica
        assert isinstance(role, LeaderRole)
        self.assertEqual(role.state.state.last, (number,))
        before = self.version()
        self.lose_epochs(last)
        last.start()
        self.cluster.advance(10.0)
        follower = self.logs()[last.host].replica
        assert isinstance(follower, FollowerRole)
        self.assertEqual((follower.trouble, follower.history.latest), ("", role.epoch))
        self.assertEqual(len(self.in_sync()), 2)
        self.assertEqual(len(self.contents()), 1)
        self.assertLess(self.version() - before, 5)
        self.send(b"afterwards")


class RemovedEpochsTests(ReplicaTestCase):
    """A partition whose epoch file is gone from one disk, and whose log has all marks."""

    def start_without_file(self, broker: MemoryBroker) -> None:
        """Start a broker again without its epoch file; check that it has lost nothing by that."""
        self.send(b"before")
        self.cluster.advance(0.5)
        (content,) = self.contents()
        broker.kill()
        broker.files.remove(f"/data/t-0/{EPOCHS}")
        refused: list[int] = []
        truncate = LogStore.truncate

        def noted(store: LogStore, log: PartitionLog, position: int, *more: Any, **named: Any) -> None:
            refused.append(position)
            truncate(store, log, position, *more, **named)

        self.patch(LogStore, "truncate", noted)
        broker.start()
        self.cluster.advance(8.0)
        self.assertEqual((refused, len(self.in_sync()), len(self.contents())), ([], 3, 1))
        self.assertTrue(self.contents().pop().startswith(content))

    def test_a_follower(self) -> None:
        """It knows its epochs by the marks, and cuts nothing off that it is counted on for."""
        self.start_without_file(self.followers[0])

    def test_a_leader(self) -> None:
        """It leads on in another epoch, as followers may have entries of the last one that it has lost."""
        leader, epoch = self.leader, self.epoch
        self.start_without_file(leader)
        self.assertIs(self.leader, leader)
        self.assertGreater(self.epoch, epoch)

    @property
    def epoch(self) -> int:
        """The epoch of the leader."""
        role = self.logs()[self.leader.host].replica
        assert isinstance(role, LeaderRole)
        return role.epoch


class EmptyEpochTests(ReplicaTestCase):
    """A broker that was elected, could not append the mark of its epoch, and follows another one now."""

    #: Bytes for which it finds room then: enough for the epoch file.
    room = 60

    def leave_behind(self) -> tuple[MemoryBroker, MemoryBroker]:
        """Have one follower miss a message that the other one has; return both."""
        producer = self.cluster.producer(acks=1)
        self.cluster.wait(producer.send("t", b"before"))
        self.cluster.advance(0.5)
        behind, other = self.followers
        assert behind.clock is not None
        behind.clock.pause()
        self.cluster.wait(producer.send("t", b"that one follower has"))
        self.cluster.advance(0.2)
        self.assertLess(*[self.logs()[each.host].end for each in (behind, other)])
        return behind, other

    def elect_in_vain(self, behind: MemoryBroker, other: MemoryBroker) -> None:
        """Have ``behind`` elected with no room for the mark, then ``other``, while the leader is dead."""
        assert behind.clock is not None and other.clock is not None
        behind.files.room = self.room
        self.leader.kill()
        behind.clock.resume()
        other.clock.pause()  # so that its session ends, and it is not chosen at once
        self.cluster.advance(8.0)
        role = self.logs()[behind.host].replica
        self.assertTrue(isinstance(role, LeaderRole) and role.epoch_start is None)
        other.clock.resume()
        self.cluster.advance(2.0)
        behind.clock.pause()
        self.cluster.advance(8.0)
        truncations: list[int] = []
        assert behind.store is not None
        truncate = type(behind.store).truncate

        def noted(store: Any, log: Any, position: int, *more: Any, **named: Any) -> None:
            if store is behind.store:
                truncations.append(position)
            truncate(store, log, position, *more, **named)

        self.patch(type(behind.store), "truncate", noted)
        behind.clock.resume()
        self.cluster.advance(4.0)
        self.assertTrue(isinstance(self.logs()[behind.host].replica, FollowerRole))
        behind.files.room = None
        self.cluster.advance(8.0)
        log = self.logs()[behind.host]
        assert isinstance(log.replica, FollowerRole)
        self.assertEqual((log.replica.trouble, truncations), ("", []))
        self.assertIn(behind.settings.id, self.in_sync())
        self.assertEqual(len(self.contents()), 1)
        leader = self.logs()[self.leader.host].replica
        assert isinstance(leader, LeaderRole)
        self.assertEqual(read_epochs(behind.files, log.folder), leader.history)

    def test_more_of_the_epoch_before(self) -> None:
        """It was behind in an earlier epoch, and copies the rest of that first: it is not of the epoch of its own."""
        self.elect_in_vain(*self.leave_behind())

    def test_an_earlier_epoch_that_it_never_saw(self) -> None:
        """The next leader has entries of it: they come first, though their epoch is the lower one."""
        self.send(b"before")
        self.cluster.advance(0.5)
        leader, (behind, other) = self.leader, self.followers
        assert behind.clock is not None
        behind.clock.pause()
        leader.kill()
        leader.start()  # it leads again, in the next epoch
        self.cluster.advance(0.9)
        ends = [self.logs()[each.host].end for each in (behind, other)]
        self.assertLess(*ends)
        self.elect_in_vain(behind, other)

    def test_a_start_in_between(self) -> None:
        """The epoch file never says that entries of an earlier epoch are of the empty one."""
        behind, other = self.leave_behind()
        assert behind.clock is not None and other.clock is not None
        behind.files.room = self.room
        self.leader.kill()
        behind.clock.resume()
        other.clock.pause()
        self.cluster.advance(8.0)
        behind.kill()
        other.clock.resume()
        self.cluster.advance(8.0)
        behind.files.room = None
        found = self.note_epochs(behind)
        behind.start()
        self.cluster.advance(8.0)
        self.check_epochs(found)

    def test_only_the_copy_of_the_file_finds_no_room(self) -> None:
        """Bytes of an earlier epoch come next, and a start that comes then must not take them for those of the new."""
        behind, other = self.leave_behind()
        found = self.note_epochs(behind)
        self.room = 34
        self.elect_in_vain(behind, other)
        self.check_epochs(found)

    def note_epochs(self, broker: MemoryBroker) -> list[tuple[object, object]]:
        """Return a list of the epochs in the file and of those in the log, at each append to the log of a broker."""
        found: list[tuple[object, object]] = []
        take = FollowerRole.take

        def noted(role: FollowerRole, *more: Any) -> bool:
            log = role.log
            end = log.end
            taken = take(role, *more)
            if log.end > end and role.me == broker.settings.id:
                written = read_epochs(broker.files, log.folder).cut(log.end)
                found.append((written, find_epochs(broker.files, log.snapshot(log.end))))
            return taken

        self.patch(FollowerRole, "take", noted)
        return found

    def check_epochs(self, found: list[tuple[object, object]]) -> None:
        """Check that the file has always told what the log holds."""
        self.assertGreaterEqual(len(found), 2)
        self.assertEqual([written for written, _ in found], [marked for _, marked in found])


class LostTreeTests(ReplicaTestCase):
    """A tree is lost, and a replica is elected that was away while others led in epochs that it does not know."""

    def setUp(self) -> None:
        """Have the second replica lead and take a message while the third one is away, then lose the tree."""
        super().setUp()
        self.first, (self.second, self.third) = self.leader, self.followers
        self.send(b"before")
        self.cluster.advance(1.0)
        self.third.kill()
        self.cluster.advance(6.0)
        self.first.kill()
        self.cluster.advance(10.0)
        self.assertIs(self.leader, self.second)
        self.send(self.message(self.second, 0))
        self.lose_tree()

    def message(self, leader: MemoryBroker, number: int) -> bytes:
        """Return a message of the same length as all others."""
        return b"%s %03d" % (leader.host.encode(), number)

    def lose_tree(self) -> None:
        """Kill all brokers, and begin with an empty tree."""
        for broker in self.cluster.brokers:
            broker.kill()
        self.cluster.advance(60.0)
        tree = self.cluster.tree
        tree.kill()
        tree.files = MemoryFiles(now=self.cluster.clock.seconds)
        tree.start()

    def elect(self, broker: MemoryBroker, messages: int) -> None:
        """Let a broker that is the only live one lead, and take messages."""
        broker.start()
        self.cluster.advance(10.0)
        assert broker.store is not None
        self.cluster.wait(self.admin.elect("t", {0: broker.store.broker_id}, unclean=True))
        self.cluster.advance(5.0)
        for number in range(messages):
            self.send(self.message(broker, number))

    def assert_equal_again(self) -> None:
        """Assert that the logs are equal once all brokers run."""
        for broker in self.cluster.brokers:
            if not broker.running:
                broker.start()
        self.cluster.advance(10.0)
        self.assertEqual((self.in_sync(), len(self.contents())), ((0, 1, 2), 1))

    def test_messages_of_two_leaders_are_of_different_epochs(self) -> None:
        """The third replica has more messages than the second one, with entries that end at the same positions."""
        self.elect(self.third, 3)
        self.assert_equal_again()

    def test_a_tree_that_is_lost_twice(self) -> None:
        """The third replica knows nothing of what followed the first loss."""
        self.elect(self.second, 2)
        self.lose_tree()
        self.elect(self.third, 5)
        self.assert_equal_again()

    def test_a_clock_that_is_wrong(self) -> None:
        """The elected replica begins behind the epochs that it knows, and others cut off what readers saw of them."""
        self.elect(self.second, 2)
        self.first.start()
        self.cluster.advance(10.0)
        known = self.logs()[self.second.host].leadership.epoch
        self.lose_tree()
        for broker in self.cluster.brokers:
            broker.set_clock(-self.cluster.clock.seconds())
        self.elect(self.first, 5)
        self.assertGreater(self.logs()[self.first.host].leadership.epoch, known)
        self.assert_equal_again()
