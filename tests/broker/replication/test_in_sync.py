"""Tests of who counts as in sync, and of the log lines about it."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.logger import formatEvent, globalLogPublisher
from twisted.trial.unittest import SynchronousTestCase

from logd.broker.replication.epoch_cache import EpochCache
from logd.broker.replication.followers import FollowerProgress
from logd.broker.replication.in_sync_set import GATHERED_SECONDS, MOST_LINES, InSyncChange, InSyncLog, InSyncSet
from logd.broker.replication.leader import LeaderRole
from logd.coord.partition_state import PartitionState
from logd.log.epochs.history import EpochHistory
from logd.log.partition import PartitionLog
from logd.testing.memory.broker import MemoryBroker
from tests.broker.replication.test_replicas import ReplicaTestCase
from tests.broker.rig import Events
from tests.log.entries import plain
from tests.log.rig import Rig


class InSyncTests(ReplicaTestCase):
    """Followers that may be behind for a second."""

    def test_a_follower_is_not_behind_because_nothing_was_sent_for_long(self) -> None:
        """The leader may look for those that are behind just when the first message after a pause is appended."""
        self.send(b"before")
        self.cluster.advance(5.0)  # five times the time for which a follower may be behind
        log = self.logs()[self.leader.host]
        role = log.replica
        assert isinstance(role, LeaderRole)
        version = role.state.version
        log.append([plain(b"after")], 1, -1)
        role.look()
        self.cluster.advance(1.0)
        self.assertEqual((role.state.version, self.in_sync()), (version, (0, 1, 2)))


class GatheredTests(ReplicaTestCase):
    """Three replicas of a topic whose ``flush.messages`` and ``flush.ms`` are long in coming."""

    def setUp(self) -> None:
        """Change the settings of the topic."""
        super().setUp()
        self.cluster.wait(self.admin.alter("t", {"flush.messages": 10_000, "flush.ms": 600_000}))
        self.cluster.advance(1.0)

    def test_producers_with_acks_all_do_not_wait_for_the_followers_to_gather(self) -> None:
        """The message that they wait for is on every disk at once, as with a single copy."""
        began = self.cluster.clock.seconds()
        sent = self.send(b"hello")
        self.assertLess(self.cluster.clock.seconds() - began, 0.5)
        self.assertEqual({log.flushed_end for log in self.logs().values()}, {sent.next_position})

    def test_gathered_messages_leave_the_in_sync_set_as_it_is(self) -> None:
        """The leader gathers them for longer than a follower may be behind."""
        version = self.leader_role.state.version
        self.send(b"gathered", acks=1)
        self.cluster.advance(10.0)
        self.assertEqual((self.leader_role.state.version, self.in_sync()), (version, (0, 1, 2)))
        leader = self.logs()[self.leader.host]
        self.assertLess(leader.visible_end, leader.end, "it was flushed before its time")

    def test_leaders_change_without_a_wait(self) -> None:
        """Neither an orderly stop nor the next leader's readers wait for what was gathered."""
        self.send(b"gathered", acks=1)
        former = self.leader
        began = self.cluster.clock.seconds()
        self.cluster.wait(former.stop())
        self.assertLess(self.cluster.clock.seconds() - began, 2.0)
        self.cluster.advance(2.0)
        self.assertIsNot(self.leader, former)
        self.assertTrue(self.leader_role.knows_visible_end)

    def test_a_follower_that_has_fallen_behind_leaves_once(self) -> None:
        """It has flushed all that is visible, as the leader shows nothing that it gathers."""
        self.send(b"before")
        producer = self.cluster.producer(acks=1)
        self.cluster.wait(producer.send("t", b"gathered"))
        self.cluster.advance(2.0)
        version, clock = self.leader_role.state.version, self.followers[0].clock
        assert clock is not None
        clock.pause()
        self.cluster.wait(producer.send("t", b"gathered while it stands still"))
        self.cluster.advance(3.0)
        self.assertEqual((self.leader_role.state.version, len(self.leader_role.in_sync)), (version + 1, 2))
        clock.resume()
        self.cluster.advance(5.0)
        self.assertEqual(self.in_sync(), (0, 1, 2))

    def test_a_leader_that_is_elected_again_knows_its_visible_end_soon(self) -> None:
        """It has followed nobody since it gathered messages, as it was the only replica in sync."""
        producer = self.cluster.producer(acks=1)
        self.cluster.wait(producer.send("t", b"before"))
        former, leader, (other, third) = self.leader_role, self.leader, self.followers
        assert other.clock is not None and leader.coordination is not None
        third.kill()
        other.clock.pause()
        self.cluster.wait(producer.send("t", b"gathered"))
        self.cluster.advance(10.0)
        self.assertEqual(len(former.in_sync), 1)
        link = leader.coordination.link
        link.reachable = False
        link.cut()
        self.cluster.advance(6.0)
        other.clock.resume()
        self.cluster.advance(6.0)  # the controller finds that the leader is gone
        link.reachable = True
        self.cluster.advance(5.0)
        self.assertGreater(self.leader_role.epoch, former.epoch)
        self.assertIs(self.leader, leader)
        self.assertTrue(self.leader_role.knows_visible_end)
        self.assertEqual(len(self.in_sync()), 2)

    @property
    def leader_role(self) -> LeaderRole:
        """The leader's role for the partition."""
        role = self.logs()[self.leader.host].replica
        assert isinstance(role, LeaderRole)
        return role


class DeadLeaderTests(ReplicaTestCase):
    """A partition of three replicas."""

    def test_it_leaves_the_in_sync_set_without_another_message(self) -> None:
        """A producer that sends again what is stored already waits for that, and appends nothing."""
        self.send(b"before")
        self.leader.kill()
        self.cluster.advance(20.0)
        self.assertEqual(len(self.in_sync()), 2)
        log = self.logs()[self.leader.host]
        self.assertEqual(log.visible_end, log.end)


class SlowBeginTests(ReplicaTestCase):
    """A leader that needs longer to write its epoch file than a follower may be behind."""

    def test_its_followers_are_not_behind_before_they_can_follow(self) -> None:
        """It would be the only one in sync, and alone have what it acknowledges then."""
        self.send(b"before")
        leader, number = self.leader, self.leader.settings.id
        assert number is not None
        write, going, states = EpochCache.write, Deferred[None](), set[tuple[int, ...]]()

        async def waiting(cache: EpochCache, log: PartitionLog, history: EpochHistory) -> None:
            await going
            await write(cache, log, history)

        self.patch(EpochCache, "write", waiting)
        self.cluster.wait(self.admin.drain(number))
        self.cluster.advance(6.0)
        going.callback(None)
        self.assertIsNot(self.leader, leader)
        for _ in range(200):
            self.cluster.advance(0.01)
            states.add(tuple(sorted(self.logs()[self.leader.host].leadership.in_sync)))
        self.assertEqual(states, {(0, 1, 2)})


class OfflineFollowerTests(ReplicaTestCase):
    """A partition of three replicas that may be behind for long."""

    lag_ms = 60_000

    def setUp(self) -> None:
        """Send something to all of them."""
        super().setUp()
        self.send(b"before")
        self.follower = self.followers[0]

    def fail_disk(self, broker: MemoryBroker) -> float:
        """Let a sync of a follower's log fail; return the seconds that a producer waits for that message."""
        broker.files.fail_syncs = 1
        began = self.cluster.clock.seconds()
        self.send(b"meanwhile")
        self.assertIsNotNone(self.logs()[broker.host].offline)
        return self.cluster.clock.seconds() - began

    def test_producers_wait_for_a_moment(self) -> None:
        """It says that it follows no more, so the leader takes it out of the in-sync set."""
        number = self.follower.settings.id
        self.assertLess(self.fail_disk(self.follower), 1.5)
        self.assertNotIn(number, self.in_sync())
        self.follower.kill()
        self.follower.start()
        self.cluster.advance(10.0)
        in_sync = self.logs()[self.leader.host].leadership.in_sync
        self.assertEqual((in_sync, len(self.contents())), ((0, 1, 2), 1))


class SilentFollowerTests(ReplicaTestCase):
    """A follower whose machine loses its power: its connection to the leader stays, and nothing comes on it."""

    lag_ms = 60_000

    def test_producers_wait_until_its_session_with_the_tree_ends(self) -> None:
        """They do not wait for as long as one that is live may be behind."""
        self.send(b"before")
        follower = self.followers[0]
        self.cluster.network.block(self.leader.host, follower.host)
        follower.kill(power_lost=True)
        began = self.cluster.clock.seconds()
        self.send(b"meanwhile")
        self.assertLess(self.cluster.clock.seconds() - began, 6.0)
        self.cluster.network.heal()
        follower.start()
        self.cluster.advance(10.0)
        in_sync = self.logs()[self.leader.host].leadership.in_sync
        self.assertEqual((in_sync, len(self.contents())), ((0, 1, 2), 1))


class LoggedChangesTests(ReplicaTestCase):
    """The log lines about a follower that dies and comes back."""

    def setUp(self) -> None:
        """Choose a follower, and keep what is logged from now on."""
        super().setUp()
        self.send(b"before")
        self.follower = self.followers[-1]
        self.others = sorted({0, 1, 2} - {self.id_of_follower})
        self.events = Events()
        globalLogPublisher.addObserver(self.events)
        self.addCleanup(globalLogPublisher.removeObserver, self.events)

    @property
    def id_of_follower(self) -> int:
        """The broker's id."""
        assert self.follower.settings.id is not None
        return self.follower.settings.id

    def lines(self) -> list[tuple[str, str]]:
        """Return the lines about the in-sync set, each with its level."""
        lines = [(event["log_level"].name, formatEvent(event)) for event in self.events.events]
        return [line for line in lines if "the in-sync replicas" in line[1]]

    def test_a_broker_leaves_and_joins(self) -> None:
        """There is one line for each, at the leader alone, and none when the state is read again."""
        self.follower.kill()
        self.cluster.advance(20.0)
        first, second = self.others
        left = f"t-0: broker {self.id_of_follower} left the in-sync replicas, which are now {first}, {second} (of 3)"
        self.assertEqual(self.lines(), [("info", f"{left}: it has not caught up for 1 s, and is not connected")])
        self.follower.start()
        self.cluster.advance(20.0)
        joined = f"t-0: broker {self.id_of_follower} joined the in-sync replicas, which are now 0, 1, 2 (of 3)"
        self.assertEqual(self.lines()[1:], [("info", joined)])


class LoggedBelowMinimumTests(LoggedChangesTests):
    """The same, with messages that three replicas have to have."""

    least = 3

    def test_a_broker_leaves_and_joins(self) -> None:
        """Too few are left, which is a warning that says what follows from it; the end of it is none."""
        self.follower.kill()
        self.cluster.advance(20.0)
        ((level, line),) = self.lines()
        self.assertEqual(level, "warn")
        self.assertIn("; min.insync.replicas = 3, so messages with acks -1 are refused", line)
        self.follower.start()
        self.cluster.advance(20.0)
        self.assertEqual([level for level, _ in self.lines()], ["warn", "info"])


class ReasonTests(SynchronousTestCase):
    """The reasons that are logged for a broker that leaves."""

    def test_the_reason_is_the_first_that_holds(self) -> None:
        """A broker may be left out by a reassignment, be away, have another disk, or be slow."""
        live, changes = {1: "a", 3: "other", 4: "d"}, list[InSyncChange]()
        in_sync_set = InSyncSet(1, Clock(), lambda: live, 10.0, changes.append)
        former = PartitionState(1, 0, (1, 2, 3, 4, 5), (), {1: "a", 2: "b", 3: "c", 4: "d", 5: "e"}, 0)
        in_sync_set.note_change(Rig().log(), (1, 2, 3, 4), former, former, True)
        self.assertEqual(changes, [])
        state = PartitionState(1, 0, (1,), (), {1: "a"}, 0)
        in_sync_set.note_change(Rig().log(), (1, 2, 3, 4), former, state, True)
        no_more, replaced = "it stores the partition no more", "it has another data directory"
        slow = "it has not caught up for 10 s, and is not connected"
        self.assertEqual([each.broker for each in changes], [2, 3, 4, 5])
        self.assertEqual([each.reason for each in changes], ["it is not live", replaced, slow, no_more])
        changes.clear()
        in_sync_set.note_change(Rig().log(), (1, 2, 3, 4, 5), former, state, False)  # by the controller
        self.assertEqual([each.reason for each in changes], [no_more, replaced, no_more, no_more])


class InstancesTests(SynchronousTestCase):
    """The data directories that a leader names when it changes the set."""

    def test_a_member_is_in_sync_with_the_directory_that_it_had_alone(self) -> None:
        """The controller has not left it out yet, and it follows with an empty one already, as another one joins."""
        in_sync_set = InSyncSet(1, Clock(), lambda: {1: "a", 2: "empty", 3: "c"}, 10.0, lambda change: None)
        for broker, instance, flushed in ((2, "empty", 0), (3, "c", 100)):
            in_sync_set.followers[broker] = FollowerProgress(instance, flushed=flushed)
        state = PartitionState(1, 0, (1, 2), (), {1: "a", 2: "b"}, 0)
        changed = in_sync_set.changed(state, (1, 2, 3), 1)
        self.assertEqual(changed.instances, {1: "a", 2: "b", 3: "c"})
        self.assertFalse(changed.is_member(2, "empty"), "a broker with an empty disk may be elected")

    def test_one_that_left_joins_with_the_directory_that_it_has(self) -> None:
        """The one of before is not remembered for it, and those of others who left last are."""
        in_sync_set = InSyncSet(1, Clock(), dict[int, str], 10.0, lambda change: None)
        in_sync_set.followers[2] = FollowerProgress("new")
        state = PartitionState(1, 0, (1,), (2, 3), {1: "a", 2: "b", 3: "c"}, 0)
        changed = in_sync_set.changed(state, (1, 2), 3)
        self.assertEqual((changed.last, changed.instances), ((3,), {1: "a", 2: "new", 3: "c"}))


def change(partition: int, reason: str = "it is not live", least: int = 1) -> InSyncChange:
    """Return the change of a partition that broker 3 has left for a reason, or has joined."""
    return InSyncChange("t", partition, 3, reason, (1, 2) if reason else (1, 2, 3), 3, least)


class InSyncLogTests(SynchronousTestCase):
    """``InSyncLog``."""

    def setUp(self) -> None:
        """Keep what is logged."""
        self.clock, self.events = Clock(), Events()
        globalLogPublisher.addObserver(self.events)
        self.addCleanup(globalLogPublisher.removeObserver, self.events)
        self.log = InSyncLog(self.clock)

    def lines(self) -> list[tuple[str, str]]:
        """Return what was logged, each line with its level."""
        return [(event["log_level"].name, formatEvent(event)) for event in self.events.events]

    def note(self, *changes: InSyncChange) -> None:
        """Note changes, and let the moment pass for which they are gathered."""
        for each in changes:
            self.log.note(each)
        self.assertEqual(self.lines(), [])
        self.clock.advance(GATHERED_SECONDS)

    def test_a_few_changes_have_a_line_each(self) -> None:
        """They are logged in their order, and the next ones later."""
        self.note(*[change(number) for number in range(MOST_LINES)])
        self.assertEqual(len(self.lines()), MOST_LINES)
        self.assertIn("t-0: broker 3 left", self.lines()[0][1])
        self.log.note(change(0, ""))
        self.clock.advance(GATHERED_SECONDS)
        self.assertEqual(
            self.lines()[MOST_LINES:],
            [("info", "t-0: broker 3 joined the in-sync replicas, which are now 1, 2, 3 (of 3)")],
        )

    def test_a_broker_that_comes_and_goes_has_few_lines(self) -> None:
        """In a reassignment a broker may leave, join and leave again within milliseconds: only the end of it counts."""
        self.note(change(0, "first"), change(1), change(0, ""), change(0, "last"))
        self.assertEqual([line.rpartition(": ")[2] for _, line in self.lines()], ["last", "it is not live"])

    def test_many_changes_have_one_line(self) -> None:
        """It counts the partitions by broker; one that has left and joined again is one partition."""
        self.note(*[change(number) for number in range(30)], change(7, ""))
        text = (
            "the in-sync replicas of 30 partitions have changed: broker 3 joined those of 1, broker 3 left those of 30"
        )
        self.assertEqual(self.lines(), [("info", text)])

    def test_many_changes_below_the_minimum_are_a_warning(self) -> None:
        """It counts the partitions that are below it in the end."""
        self.note(*[change(number, least=3) for number in range(30)], change(7, "", least=3))
        ((level, line),) = self.lines()
        self.assertEqual(level, "warn")
        self.assertIn("; 29 of the partitions are below min.insync.replicas, and refuse messages with acks -1", line)

    def test_a_stop_does_not_wait(self) -> None:
        """A change that was gathered is logged at once, and nothing remains to be done."""
        self.log.note(change(0))
        self.log.stop()
        self.log.stop()
        self.assertEqual(len(self.lines()), 1)
        self.assertEqual(self.clock.getDelayedCalls(), [])
