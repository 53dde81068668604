"""Tests of conflicts between stored topics and the tree, which end while the broker runs."""

from __future__ import annotations

from functools import partial

from attrs import evolve
from twisted.internet.defer import Deferred

from logd.coord import paths
from logd.coord.registries.deleted_topics import delete_topic
from logd.coord.registries.topics import encode_entry
from logd.deferreds.callbacks import called_back
from logd.errors import InvalidRequest
from logd.topic import TopicEntry
from tests.broker.lost_logs import LostLogTestCase
from tests.broker.members import Member, MembersTestCase
from tests.log.entries import plain

HELLO = plain(b"hello")


class ConflictTests(MembersTestCase):
    """A stopped broker that stores two partitions of topic "t", with a message in each."""

    def setUp(self) -> None:
        """Fill the topic, stop the broker, and take the topic out of the tree."""
        super().setUp()
        self.one = self.member(1)
        self.entry = self.create(self.one, "t", 2)
        for number in (0, 1):
            log = self.one.store.log("t", number)
            assert log is not None
            log.append([HELLO], 1, -1)
        self.outcome(self.one.stop())
        self.outcome(self.reader.delete(paths.topic("t")))

    def begin(self, entry: TopicEntry) -> None:
        """Start the broker over a tree that has this entry."""
        self.outcome(self.reader.create(paths.topic("t"), encode_entry(entry)))
        self.one.start()
        self.settle()

    def served(self, member: Member) -> list[int]:
        """Return the partitions that are served, each of which must have its message."""
        logs = [log for log in member.store.logs_of("t") if log.offline is None]
        self.assertEqual({log.end for log in logs}, {len(HELLO)} if logs else set())
        return sorted(log.partition for log in logs)

    def check_well(self) -> None:
        """Check that all is as it was before the conflict."""
        self.assertEqual(self.served(self.one), [0, 1])
        self.assertEqual(self.one.broker.topics.get("t"), self.entry)
        health = self.one.broker.health()
        self.assertEqual((health["status"], health["conflicts"], health["offline"]), ("ok", {}, {}))
        log = self.one.store.log("t", 1)
        assert log is not None
        log.append([HELLO], 1, -1)
        self.assertEqual(log.end, 2 * len(HELLO))

    def test_removing_the_others_node_ends_a_conflict(self) -> None:
        """The topic stored here moves into the tree and is served, without a restart."""
        self.begin(TopicEntry("theirs", {0: (1,)}))
        self.assertEqual((self.served(self.one), list(self.one.broker.health()["conflicts"])), ([], ["t"]))
        self.outcome(self.reader.delete(paths.topic("t")))
        self.settle()
        self.check_well()

    def test_deleting_the_other_topic_ends_a_conflict(self) -> None:
        """The tree's note has that topic's uuid, so it does not delete ours."""
        self.begin(TopicEntry("theirs", {0: (1,)}))
        self.outcome(Deferred.fromCoroutine(delete_topic(self.reader, "t")))
        self.settle()
        self.check_well()

    def test_listing_the_broker_again_ends_a_conflict(self) -> None:
        """The partitions that were listed all the time were served all the time."""
        elsewhere = TopicEntry(self.entry.uuid, {0: (1,), 1: (2,)})
        self.begin(elsewhere)
        self.assertEqual((self.served(self.one), list(self.one.broker.health()["conflicts"])), ([0], ["t"]))
        self.outcome(self.reader.set(paths.topic("t"), encode_entry(self.entry)))
        self.settle()
        self.check_well()

    def test_a_log_that_is_opened_meanwhile_is_not_served(self) -> None:
        """A repair or truncation may have begun before; producers of the other topic would append to its log."""
        self.begin(TopicEntry("theirs", {0: (1,)}))
        refused = self.one.store.log("t", 0)
        assert refused is not None
        self.outcome(called_back(partial(self.one.store.reopen, refused, lambda: True)))
        self.assertEqual(self.served(self.one), [])
        self.outcome(self.reader.delete(paths.topic("t")))
        self.settle()
        self.check_well()

    def test_a_failed_recovery_is_repeated(self) -> None:
        """The disk fails just when the conflict ends."""
        self.begin(TopicEntry("theirs", {0: (1,)}))
        self.one.files.errors["list"] = [OSError(5, "Input/output error")]
        self.outcome(self.reader.delete(paths.topic("t")))
        self.settle()
        self.assertNotEqual(self.served(self.one), [0, 1])
        self.one.files.errors.clear()
        self.pass_time(6)
        self.check_well()


class LostAndRefusedTests(LostLogTestCase):
    """A log that was lost before the conflict began."""

    def test_a_loss_is_accepted_once_the_conflict_has_ended(self) -> None:
        """The log may be another topic's."""
        entry = self.entry("t")
        self.kill()
        self.remove_folder("t-0")
        self.open()
        theirs = evolve(entry, uuid="theirs")
        self.in_tree(paths.topic("t"), encode_entry(theirs))
        position = self.repair(dry=True).end
        answer = self.repair(position=position, accept=True)
        self.assertEqual(answer.error, InvalidRequest.code)
        self.assertIn("two different topics", answer.text)
        self.assertFalse(self.files.exists("/data/t-0"))
        self.in_tree(paths.topic("t"), encode_entry(entry))
        self.assertEqual(self.log_of("t", 1).offline, None)
        self.assertEqual(self.accept(), position)
