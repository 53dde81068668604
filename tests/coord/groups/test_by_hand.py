"""Tests of an operator's changes to a live group's nodes, and of topics that are deleted and made again."""

from __future__ import annotations

from typing import cast

from twisted.internet.defer import Deferred, fail
from twisted.logger import ILogObserver, LogEvent, globalLogPublisher

from logd.coord import paths
from logd.coord.errors import ConnectionLoss
from logd.coord.groups.claims import Claims, Conflict
from logd.coord.groups.group_changes import move_positions
from logd.coord.groups.inspection import read_group
from logd.coord.groups.records import Phase
from logd.coord.records import Delete, Stat, WatchEvent
from logd.coord.registries.deleted_topics import delete_topic
from logd.coord.registries.offsets import OffsetRegistry
from logd.coord.registries.owners import OwnerRegistry
from tests.coord.groups.rig import GroupTestCase, Member, tp


class RemovedEntryTests(GroupTestCase):
    """A live consumer's entry in the registry of consumers is removed."""

    def remove(self, member: Member) -> None:
        """Delete the member's entry, as an operator might."""
        self.get(self.outsider.delete(paths.group_consumer("g", member.name)))

    def test_a_removed_consumer_registers_again(self) -> None:
        """It keeps its share without a stop, and the others get theirs back."""
        a, b = self.joined("a", "b")
        notes = list(a.reader.notes)
        self.remove(a)
        self.settle()
        self.assertEqual(self.get(self.outsider.get_children(paths.group_consumers("g"))), ["a", "b"])
        self.assertEqual((a.numbers, b.numbers), ([0, 1, 2, 3], [4, 5, 6, 7]))
        self.assertEqual(a.reader.notes, notes)

    def test_no_other_consumer_gets_its_partitions_meanwhile(self) -> None:
        """The removed consumer hears of it late; all have their shares in the end."""
        a, b = self.joined("a", "b")
        a.coordination.link.delay = lambda: 0.7
        self.remove(a)
        for _ in range(1500):
            self.clock.advance(0.01)
            self.assertFalse(set(a.partitions) & set(b.partitions))
        self.assertEqual((a.numbers, b.numbers), ([0, 1, 2, 3], [4, 5, 6, 7]))

    def test_a_removed_consumer_without_partitions_comes_back(self) -> None:
        """It takes over when others leave."""
        members = self.joined(*"abcdefghi")
        self.remove(members[8])
        self.settle()
        for member in members[:8]:
            member.membership.leave()
        self.settle()
        self.assertEqual(members[8].numbers, list(range(8)))

    def test_a_consumer_comes_back_after_every_removal(self) -> None:
        """It calls itself steady only once its entry is there."""
        (a,) = self.joined("a")
        for _ in range(20):
            self.remove(a)
            self.run_for(0.3)
            self.assertTrue(self.get(self.outsider.exists(paths.group_consumer("g", "a"))))
        self.settle()
        self.assertIs(a.membership.phase, Phase.STEADY)

    def test_a_removed_group_begins_anew(self) -> None:
        """Each of its consumers registers again, and positions are gone."""
        a, b = self.joined("a", "b")
        a.reader.positions = {tp(0): 5}
        self.get(a.membership.commit())
        everything = [
            f"{paths.group('g')}/{below}{child}"
            for below in ("ids/", "owners/t/", "owners/", "offsets/t/", "offsets/", "")
            for child in self.get(self.outsider.get_children(f"{paths.group('g')}/{below}".rstrip("/")))
        ]
        self.get(self.outsider.multi([Delete(path) for path in [*everything, paths.group("g")]]))
        self.settle(6.0)
        self.assertEqual((a.numbers, b.numbers), ([0, 1, 2, 3], [4, 5, 6, 7]))
        self.assertIsNone(a.reader.began[tp(0)])


class BadOffsetTests(GroupTestCase):
    """An offset's node whose data are no position."""

    def alone(self, name: str) -> Member:
        """Return a member of a group in which not every partition can have an owner."""
        member = self.join(name)
        self.run_for(3.0)
        return member

    def test_a_partition_with_a_broken_offset_stands_still(self) -> None:
        """Its node stays as it is; all other partitions are consumed, also after a change."""
        for number, data in ((0, b"9" * 30), (5, b"somewhere")):
            self.get(self.outsider.create(paths.group_offset("g", "t", number), data, makepath=True))
        a = self.alone("a")
        self.assertEqual(a.numbers, [1, 2, 3, 4, 6, 7])
        notes = list(a.reader.notes)
        self.topic("u", 1)
        self.run_for(3.0)
        self.assertEqual(a.reader.notes, notes)  # a look that gives the same stops nothing
        b = self.alone("b")
        self.assertEqual((a.numbers, b.numbers), ([1, 2, 3], [4, 6, 7]))
        self.assertEqual((self.committed(0), self.committed(5)), (b"9" * 30, b"somewhere"))

    def test_a_partition_with_a_mended_offset_is_consumed(self) -> None:
        """Reading begins at the position that an administrator has set."""
        self.get(self.outsider.create(paths.group_offset("g", "t", 0), b"9" * 30, makepath=True))
        a = self.alone("a")
        entry = self.get(Deferred.fromCoroutine(read_group(self.outsider, "g")))
        moving = move_positions(self.outsider, "g", entry.offsets, {tp(0): 40})
        self.get(Deferred.fromCoroutine(moving))
        self.run_for(3.0)
        self.assertEqual((a.numbers, a.reader.began[tp(0)]), (list(range(8)), 40))

    def test_other_names_are_no_part_of_the_group(self) -> None:
        """A node that is not called like a partition is passed over."""
        for name in ("9" * 5000, "٣", "00", "x"):
            self.get(self.outsider.create(f"{paths.group_offsets('g', 't')}/{name}", b"1", makepath=True))
            self.get(self.outsider.create(f"{paths.group_owners('g', 't')}/{name}", b"1", makepath=True))
            self.get(self.outsider.create(f"{paths.BROKER_IDS}/{name}", b"1", makepath=True))
        a = self.alone("a")
        self.assertEqual(a.numbers, list(range(8)))
        entry = self.get(Deferred.fromCoroutine(read_group(self.outsider, "g")))
        self.assertEqual({where.partition for where in entry.offsets}, set(range(8)))


class LastingOwnerTests(GroupTestCase):
    """An owner's node that ends with no session, such as one of a tree that was copied."""

    def test_a_partition_that_nobody_will_release_stands_still_alone(self) -> None:
        """All others are consumed, and it follows once the node is removed."""
        for number in (0, 5):
            self.lasting(number, b"ghost\x1b")
        a = self.join("a")
        self.run_for(3.0)
        self.assertEqual(a.numbers, [1, 2, 3, 4, 6, 7])
        self.get(self.outsider.delete(paths.group_owner("g", "t", 0)))
        self.run_for(3.0)
        self.assertEqual(a.numbers, [0, 1, 2, 3, 4, 6, 7])
        self.get(self.outsider.delete(paths.group_owner("g", "t", 5)))
        self.settle()
        self.assertEqual(a.numbers, list(range(8)))

    def test_while_others_are_waited_for_it_is_told_and_watched_once(self) -> None:
        """A consumer may hold a partition for days that this one is to have: each attempt to claim meets both."""
        self.lasting(0, b"ghost")
        self.get(self.outsider.create(paths.group_owner("g", "t", 1), b"held", ephemeral=True, makepath=True))
        observer = cast(ILogObserver, self.note)
        self.addCleanup(globalLogPublisher.removeObserver, observer)
        globalLogPublisher.addObserver(observer)
        a = self.join("a")
        watched = self.count_watches(a)
        self.run_for(30.0)
        self.assertGreater(a.membership.counts.conflicts, 10)
        self.assertEqual((len(self.lines), watched.count(paths.group_owner("g", "t", 0))), (1, 1))
        self.get(self.outsider.delete(paths.group_owner("g", "t", 1)))
        self.run_for(3.0)
        self.assertEqual(a.numbers, list(range(1, 8)))
        self.get(self.outsider.delete(paths.group_owner("g", "t", 0)))
        self.settle()
        self.assertEqual(a.numbers, list(range(8)))

    def test_a_watch_that_could_not_be_set_is_set_again(self) -> None:
        """The answer may be lost with the connection, and all other calls have theirs."""
        for number in range(8):
            self.lasting(number, b"ghost")
        a = self.join("a")
        coordination, lost = a.coordination, [ConnectionLoss("the answer is lost")] * 8
        watch = coordination.exists_and_watch

        def exists_and_watch(path: str) -> tuple[Deferred[Stat | None], Deferred[WatchEvent]]:
            return (fail(lost.pop()), Deferred()) if lost and "/owners/" in path else watch(path)

        self.patch(coordination, "exists_and_watch", exists_and_watch)
        self.run_for(3.0)
        self.assertEqual((a.numbers, lost), ([], []))
        for number in range(8):
            self.get(self.outsider.delete(paths.group_owner("g", "t", number)))
        self.settle()
        self.assertEqual(a.numbers, list(range(8)))

    def setUp(self) -> None:
        """Begin with no lines of the log."""
        super().setUp()
        self.lines: list[LogEvent] = []

    def note(self, event: LogEvent) -> None:
        """Note a line about a partition that nobody will release."""
        if "belongs to no consumer" in str(event.get("log_format")):
            self.lines.append(event)

    def lasting(self, number: int, stream: bytes) -> None:
        """Make an owner's node that ends with no session."""
        self.get(self.outsider.create(paths.group_owner("g", "t", number), stream, makepath=True))

    def count_watches(self, member: Member) -> list[str]:
        """Return the paths of the nodes that a member watches for their end, from now on."""
        watched: list[str] = []
        watch = member.coordination.exists_and_watch

        def exists_and_watch(path: str) -> tuple[Deferred[Stat | None], Deferred[WatchEvent]]:
            watched.append(path)
            return watch(path)

        self.patch(member.coordination, "exists_and_watch", exists_and_watch)
        return watched


class RemadeTopicTests(GroupTestCase):
    """A topic that is deleted, and made again under another uuid."""

    def make_again(self, member: Member) -> None:
        """Delete and make the topic so quickly that only the uuid shows it."""
        member.coordination.link.delay = lambda: 0.3
        self.get(Deferred.fromCoroutine(delete_topic(self.outsider, "t")))
        self.topic("t", 8, uuid="another")
        member.coordination.link.delay = lambda: 0.0

    def test_a_new_topic_begins_without_old_positions(self) -> None:
        """Stored positions do not count, nor do those that were handled and not committed."""
        (a,) = self.joined("a", commit_interval=0.0)
        a.reader.positions = {tp(number): 500 for number in range(8)}
        self.get(a.membership.commit())
        a.reader.positions = {tp(number): 700 for number in range(8)}
        self.make_again(a)
        self.settle()
        self.assertEqual(set(a.reader.began.values()), {None})
        self.assertEqual(a.reader.uuids, {"t": "another"})
        self.assertIn("lost", a.reader.notes)
        self.get(a.membership.commit())
        self.assertEqual(self.committed(0), b"")

    def test_an_idle_owner_begins_the_new_topic_too(self) -> None:
        """It has nothing to commit, so no failed commit tells it."""
        (a,) = self.joined("a", commit_interval=0.0)
        a.reader.positions = {tp(number): 500 for number in range(8)}
        self.get(a.membership.commit())
        self.make_again(a)
        self.settle()
        self.assertEqual(set(a.reader.began.values()), {None})

    def test_a_position_moved_in_the_new_topic_stays(self) -> None:
        """No position of the former topic is written over it."""
        (a,) = self.joined("a", commit_interval=0.0)
        a.reader.positions = {tp(0): 700}
        a.coordination.link.delay = lambda: 0.3
        self.get(Deferred.fromCoroutine(delete_topic(self.outsider, "t")))
        self.topic("t", 8, uuid="another")
        self.get(self.outsider.create(paths.group_offset("g", "t", 0), b"40", makepath=True))
        a.coordination.link.delay = lambda: 0.0
        self.settle()
        self.assertEqual((self.committed(0), a.reader.began[tp(0)]), (b"40", 40))

    def test_a_deleted_topic_cannot_be_claimed(self) -> None:
        """A consumer that has not heard of the deletion leaves no position for the next topic of that name."""
        holdings = Claims(self.outsider, OwnerRegistry(self.outsider, "g"), OffsetRegistry(self.outsider, "g"))
        claiming = Deferred.fromCoroutine(holdings.claim({tp(0, "gone"): "x-0"}))
        self.run_for(0.1)
        self.failureResultOf(claiming, Conflict)
        for path in (paths.group_offset("g", "gone", 0), paths.group_owner("g", "gone", 0)):
            self.assertIsNone(self.get(self.outsider.exists(path)))
