"""Tests of the topics' registry: creations that race or lose their answer, deletions while positions are committed."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from attrs import evolve
from twisted.internet.defer import Deferred

from logd.coord import paths
from logd.coord.registries.deleted_topics import delete_topic
from logd.coord.registries.topics import (
    ChangeUncertain,
    available_partitions,
    change_topic,
    create_topic,
    decode_entry,
    read_topic,
)
from logd.errors import InvalidRequest, TopicExists, UnknownTopic
from logd.topic import TopicEntry
from tests.coord.registries.rig import RegistryTestCase

ENTRY = TopicEntry("some-uuid", {0: (1,), 1: (2,)}, {"retention.ms": 5})


class CreateTopicTests(RegistryTestCase):
    """The create of a node decides which of two creators has made the topic."""

    def test_a_topic_is_made_once_and_can_be_read(self) -> None:
        """A second create and a read of another topic are refused."""
        self.outcome(create_topic(self.tree, "t", ENTRY))
        self.assertEqual(self.outcome(read_topic(self.tree, "t")), ENTRY)
        other = TopicEntry("another", {0: (1,)})
        self.assertIsInstance(self.error(create_topic(self.tree, "t", other)), TopicExists)
        self.assertIsInstance(self.error(read_topic(self.tree, "u")), UnknownTopic)

    def test_a_create_whose_answer_is_lost_succeeds(self) -> None:
        """The node is found, and is our own."""
        self.outcome(create_topic(self.tree, "other", ENTRY))
        self.tree.link.delay = lambda: 0.05
        # Cut when the request has arrived, and before the answer has.
        self.clock.callLater(0.07, self.tree.link.cut)
        outcome = Deferred.fromCoroutine(create_topic(self.tree, "t", ENTRY))
        self.pass_time(3)
        self.assertIsNone(self.successResultOf(outcome))
        self.tree.link.delay = lambda: 0.0
        self.assertEqual(self.outcome(read_topic(self.tree, "t")), ENTRY)

    def test_a_topic_that_no_node_can_hold_is_refused(self) -> None:
        """The error has the limit and the number of partitions that fits; nothing is made or changed."""
        for brokers, most in (((1,), 71_000), ((1001, 1002, 1003), 34_000)):
            large = TopicEntry("u", dict.fromkeys(range(100_000), brokers))
            error = self.error(create_topic(self.tree, "large", large))
            self.assertIsInstance(error, InvalidRequest)
            found = re.search(r"100,000 partitions .* 1,000,000 are allowed, .* about ([0-9,]+) partitions", str(error))
            assert found is not None, error
            fits = int(found[1].replace(",", ""))
            self.assertGreater(fits, most)
            self.outcome(create_topic(self.tree, f"fits-{most}", TopicEntry("v", dict.fromkeys(range(fits), brokers))))
        self.outcome(create_topic(self.tree, "t", ENTRY))
        grown = change_topic(self.tree, "t", lambda entry: evolve(entry, partitions=large.partitions))
        self.assertIsInstance(self.error(grown), InvalidRequest)
        self.assertEqual(self.outcome(read_topic(self.tree, "t")), ENTRY)


class ChangeTopicTests(RegistryTestCase):
    """Changes of a topic whose answers are lost."""

    #: Seconds after which the request to set the entry is under way, and has been executed.
    UNDER_WAY, EXECUTED = 0.22, 0.27

    def setUp(self) -> None:
        """Make a topic and a second client, which stays connected. Each message of the first takes 0.05 s."""
        super().setUp()
        self.outcome(create_topic(self.tree, "t", ENTRY))
        self.other = self.client()
        self.tree.link.delay = lambda: 0.05
        self.calls = 0

    def raised(self, entry: TopicEntry) -> TopicEntry:
        """Add 1 to retention.ms, so that a change that is made twice shows."""
        self.calls += 1
        return evolve(entry, settings={**entry.settings, "retention.ms": int(entry.settings["retention.ms"]) + 1})

    def others(self, entry: TopicEntry) -> TopicEntry:
        """Set another setting."""
        return evolve(entry, settings={**entry.settings, "segment.bytes": 7})

    def change_and_cut(self, after: float, *meanwhile: Callable[[TopicEntry], TopicEntry]) -> Deferred[Any]:
        """Change the topic, cut the connection, and let the other client make changes before there is a new one."""
        changing = Deferred.fromCoroutine(change_topic(self.tree, "t", self.raised))
        while after > 0.05:
            self.clock.advance(0.05)
            after -= 0.05
        self.clock.advance(after)
        self.tree.link.reachable = False
        self.tree.link.cut()
        for change in meanwhile:
            self.outcome(change_topic(self.other, "t", change))
        self.tree.link.reachable = True
        self.pass_time(3)
        return changing

    def stored(self) -> tuple[dict[str, int | str], int]:
        """Return the settings in the tree, and the number of changes."""
        data, stat = self.outcome(self.other.get(paths.topic("t")))
        return dict(decode_entry("t", data).settings), stat.version

    def test_a_change_whose_answer_is_lost_is_made_once(self) -> None:
        """The former entry is the one before the change, not the one that the second look finds."""
        former, entry = self.successResultOf(self.change_and_cut(self.EXECUTED))
        self.assertEqual((former, entry.settings), (ENTRY, {"retention.ms": 6}))
        self.assertEqual((self.stored(), self.calls), (({"retention.ms": 6}, 1), 1))

    def test_a_change_that_did_not_arrive_is_sent_again(self) -> None:
        """It is the same change."""
        former, entry = self.successResultOf(self.change_and_cut(self.UNDER_WAY))
        self.assertEqual((former, entry.settings), (ENTRY, {"retention.ms": 6}))
        self.assertEqual((self.stored(), self.calls), (({"retention.ms": 6}, 1), 1))

    def test_a_change_that_did_not_arrive_is_made_of_what_others_left(self) -> None:
        """Their change stays."""
        former, _ = self.successResultOf(self.change_and_cut(self.UNDER_WAY, self.others))
        self.assertEqual(former.settings, {"retention.ms": 5, "segment.bytes": 7})
        self.assertEqual(self.stored(), ({"retention.ms": 6, "segment.bytes": 7}, 2))

    def test_a_lost_answer_followed_by_another_change_is_reported_as_uncertain(self) -> None:
        """The change is not made on top of one that came after it, where it might be the second time."""
        self.failureResultOf(self.change_and_cut(self.EXECUTED, self.others), ChangeUncertain)
        self.assertEqual(self.stored(), ({"retention.ms": 6, "segment.bytes": 7}, 2))

    def exchanged(self, new: TopicEntry) -> Callable[[], None]:
        """Return a function that deletes the topic and makes it again, the first time that it is called."""
        left = [new]

        def exchange() -> None:
            if left:
                self.outcome(delete_topic(self.other, "t"))
                self.outcome(create_topic(self.other, "t", left.pop()))

        return exchange

    def test_a_topic_made_again_between_the_look_and_the_change(self) -> None:
        """Its node has the version of the former one again; the new topic is changed, not overwritten."""
        self.tree.link.delay = lambda: 0.0
        new = TopicEntry("new", {0: (3,)}, {"retention.ms": 50})
        exchange = self.exchanged(new)

        def raised(entry: TopicEntry) -> TopicEntry:
            exchange()
            return self.raised(entry)

        former, entry = self.outcome(change_topic(self.tree, "t", raised))
        self.assertEqual((former, entry), (new, evolve(new, settings={"retention.ms": 51})))
        self.assertEqual(self.stored(), ({"retention.ms": 51}, 1))
        self.assertEqual(self.outcome(self.other.get_children(paths.topic("t"))), [])

    def test_a_change_that_is_refused_leaves_nothing(self) -> None:
        """Nor does one that changes nothing."""
        self.tree.link.delay = lambda: 0.0

        def refuse(entry: TopicEntry) -> TopicEntry:
            raise InvalidRequest("no")

        self.assertIsInstance(self.error(change_topic(self.tree, "t", refuse)), InvalidRequest)
        self.outcome(change_topic(self.tree, "t", lambda entry: entry))
        self.settle()
        self.assertEqual(self.outcome(self.other.get_children(paths.topic("t"))), [])
        self.assertEqual(self.stored()[1], 0)

    def test_a_topic_created_again_is_another_one(self) -> None:
        """It is as new as the first was, and is changed as if there had been none before."""
        new = TopicEntry("new", {0: (1,)}, {"retention.ms": 50})

        def again(entry: TopicEntry) -> TopicEntry:
            self.outcome(delete_topic(self.other, "t"))
            self.outcome(create_topic(self.other, "t", new))
            return new

        former, entry = self.successResultOf(self.change_and_cut(self.UNDER_WAY, again))
        self.assertEqual((former, entry), (new, evolve(new, settings={"retention.ms": 51})))


class AvailablePartitionsTests(RegistryTestCase):
    """The partitions that can be assigned: PT of Algorithm 1."""

    def test_the_first_live_broker_leads_a_partition(self) -> None:
        """A partition without one is not available."""
        entry = TopicEntry("x", {0: (1, 2), 1: (3,), 2: (2, 1), 3: ()})
        self.assertEqual(available_partitions(entry, [1, 2]), {0: 1, 2: 2})
        self.assertEqual(available_partitions(entry, [2, 3]), {0: 2, 1: 3, 2: 2})
