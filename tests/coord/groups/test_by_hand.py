"""Tests of what somebody does to a live group's nodes by hand, and of topics that are deleted and created again."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.coord import paths
from logd.coord.groups.administration import move_positions
from logd.coord.groups.claims import Claims, Conflict
from logd.coord.groups.inspection import read_group
from logd.coord.groups.records import Phase
from logd.coord.records import Delete
from logd.coord.registries.offsets import OffsetRegistry
from logd.coord.registries.owners import OwnerRegistry
from logd.coord.registries.topics import delete_topic
from tests.coord.groups.members import GroupCase, Member, tp


class RemovedEntryTests(GroupCase):
    """A live consumer's entry in the registry of consumers is removed."""

    def remove(self, member: Member) -> None:
        """Somebody removes it."""
        self.get(self.eye.delete(paths.group_consumer("g", member.name)))

    def test_comes_back(self) -> None:
        """It registers again, keeps its share, and goes on without a stop; the others get theirs again."""
        a, b = self.joined("a", "b")
        notes = list(a.reader.notes)
        self.remove(a)
        self.settle()
        self.assertEqual(self.get(self.eye.get_children(paths.group_consumers("g"))), ["a", "b"])
        self.assertEqual((a.numbers, b.numbers), ([0, 1, 2, 3], [4, 5, 6, 7]))
        self.assertEqual(a.reader.notes, notes)

    def test_hears_of_it_late(self) -> None:
        """Others do not get what it owns meanwhile, and all have their shares in the end."""
        a, b = self.joined("a", "b")
        a.coordination.link.delay = lambda: 0.7
        self.remove(a)
        for _ in range(1500):
            self.clock.advance(0.01)
            self.assertFalse(set(a.partitions) & set(b.partitions))
        self.assertEqual((a.numbers, b.numbers), ([0, 1, 2, 3], [4, 5, 6, 7]))

    def test_without_partitions(self) -> None:
        """One that has nothing comes back too: it is there when others leave."""
        members = self.joined(*"abcdefghi")
        self.remove(members[8])
        self.settle()
        for member in members[:8]:
            member.membership.leave()
        self.settle()
        self.assertEqual(members[8].numbers, list(range(8)))

    def test_again_and_again(self) -> None:
        """As often as it is removed, also at once; what it says is that it is steady only once it is there."""
        (a,) = self.joined("a")
        for _ in range(20):
            self.remove(a)
            self.run_for(0.3)
            self.assertTrue(self.get(self.eye.exists(paths.group_consumer("g", "a"))))
        self.settle()
        self.assertIs(a.membership.phase, Phase.STEADY)

    def test_the_whole_group(self) -> None:
        """A group that is removed as a whole under its consumers begins anew, with each of them."""
        a, b = self.joined("a", "b")
        a.reader.positions = {tp(0): 5}
        self.get(a.membership.commit())
        everything = [
            f"{paths.group('g')}/{below}{child}"
            for below in ("ids/", "owners/t/", "owners/", "offsets/t/", "offsets/", "")
            for child in self.get(self.eye.get_children(f"{paths.group('g')}/{below}".rstrip("/")))
        ]
        self.get(self.eye.multi([Delete(path) for path in [*everything, paths.group("g")]]))
        self.settle(6.0)
        self.assertEqual((a.numbers, b.numbers), ([0, 1, 2, 3], [4, 5, 6, 7]))
        self.assertIsNone(a.reader.began[tp(0)])


class BadOffsetTests(GroupCase):
    """What is in an offset's node is no position."""

    def alone(self, name: str) -> Member:
        """A member that has joined a group in which not every partition can have an owner."""
        member = self.join(name)
        self.run_for(3.0)
        return member

    def test_left_alone(self) -> None:
        """That partition stands still and its node stays as it is; all others are consumed, also after a change."""
        for number, data in ((0, b"9" * 30), (5, b"somewhere")):
            self.get(self.eye.create(paths.group_offset("g", "t", number), data, makepath=True))
        a = self.alone("a")
        self.assertEqual(a.numbers, [1, 2, 3, 4, 6, 7])
        notes = list(a.reader.notes)
        self.topic("u", 1)
        self.run_for(3.0)
        self.assertEqual(a.reader.notes, notes)  # a look that gives the same stops nothing
        b = self.alone("b")
        self.assertEqual((a.numbers, b.numbers), ([1, 2, 3], [4, 6, 7]))
        self.assertEqual((self.committed(0), self.committed(5)), (b"9" * 30, b"somewhere"))

    def test_mended(self) -> None:
        """Once a position was set from outside the partition is consumed from there."""
        self.get(self.eye.create(paths.group_offset("g", "t", 0), b"9" * 30, makepath=True))
        a = self.alone("a")
        entry = self.get(Deferred.fromCoroutine(read_group(self.eye, "g")))
        moving = move_positions(self.eye, "g", entry.offsets, {tp(0): 40})
        self.get(Deferred.fromCoroutine(moving))
        self.run_for(3.0)
        self.assertEqual((a.numbers, a.reader.began[tp(0)]), (list(range(8)), 40))

    def test_names_that_are_no_partitions(self) -> None:
        """Whatever is called otherwise than a partition is no part of the group."""
        for name in ("9" * 5000, "٣", "00", "x"):
            self.get(self.eye.create(f"{paths.group_offsets('g', 't')}/{name}", b"1", makepath=True))
            self.get(self.eye.create(f"{paths.group_owners('g', 't')}/{name}", b"1", makepath=True))
            self.get(self.eye.create(f"{paths.BROKER_IDS}/{name}", b"1", makepath=True))
        a = self.alone("a")
        self.assertEqual(a.numbers, list(range(8)))
        entry = self.get(Deferred.fromCoroutine(read_group(self.eye, "g")))
        self.assertEqual({where.partition for where in entry.offsets}, set(range(8)))


class MadeAgainTests(GroupCase):
    """A topic is deleted, and created again under another uuid."""

    def make_again(self, member: Member) -> None:
        """So quickly that nobody can tell but by the uuid."""
        member.coordination.link.delay = lambda: 0.3
        self.get(Deferred.fromCoroutine(delete_topic(self.eye, "t")))
        self.topic("t", 8, uuid="another")
        member.coordination.link.delay = lambda: 0.0

    def test_begins_anew(self) -> None:
        """Old positions are not for the new topic: neither those stored, nor those handled and not committed."""
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

    def test_nothing_to_commit(self) -> None:
        """That is so for an owner that has nothing to commit: no commit would have told it."""
        (a,) = self.joined("a", commit_interval=0.0)
        a.reader.positions = {tp(number): 500 for number in range(8)}
        self.get(a.membership.commit())
        self.make_again(a)
        self.settle()
        self.assertEqual(set(a.reader.began.values()), {None})

    def test_moved_by_an_operator(self) -> None:
        """A position that somebody gives the group in the new topic is not written over with one of the former."""
        (a,) = self.joined("a", commit_interval=0.0)
        a.reader.positions = {tp(0): 700}
        a.coordination.link.delay = lambda: 0.3
        self.get(Deferred.fromCoroutine(delete_topic(self.eye, "t")))
        self.topic("t", 8, uuid="another")
        self.get(self.eye.create(paths.group_offset("g", "t", 0), b"40", makepath=True))
        a.coordination.link.delay = lambda: 0.0
        self.settle()
        self.assertEqual((self.committed(0), a.reader.began[tp(0)]), (b"40", 40))

    def test_nothing_is_claimed_of_a_deleted_topic(self) -> None:
        """Who has not heard yet that a topic is gone leaves no position that the next of that name would inherit."""
        holdings = Claims(self.eye, OwnerRegistry(self.eye, "g"), OffsetRegistry(self.eye, "g"))
        claiming = Deferred.fromCoroutine(holdings.claim({tp(0, "gone"): "x-0"}))
        self.run_for(0.1)
        self.failureResultOf(claiming, Conflict)
        for path in (paths.group_offset("g", "gone", 0), paths.group_owner("g", "gone", 0)):
            self.assertIsNone(self.get(self.eye.exists(path)))
