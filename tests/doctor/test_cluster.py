"""Tests of what logd.doctor says of a cluster."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.doctor.exposure import examine_open_tree
from logd.doctor.losses import ClusterContents, examine_copies, examine_tree
from logd.doctor.observation import Level, worst
from logd.topic import TopicEntry

TOPICS = {"a": TopicEntry("u1", {0: (1,), 1: (2,)}), "b": TopicEntry("u2", {0: (1, 2)})}


class LossesTests(SynchronousTestCase):
    """Losses with a machine."""

    def test_topics_with_one_copy(self) -> None:
        """Those of this broker are named, with their partitions."""
        (found,) = examine_copies(ClusterContents(topics=TOPICS), 1)
        self.assertEqual((found.level, found.subject), (Level.WARNING, "1 topic"))
        self.assertIn("1 partition on broker 1 alone", found.text)
        (any_broker,) = examine_copies(ClusterContents(topics=TOPICS), None)
        self.assertIn("2 partitions", any_broker.text)
        self.assertEqual(worst(examine_copies(ClusterContents(topics=TOPICS), 3)), Level.OK)
        self.assertEqual(list(examine_copies(ClusterContents(), 1)), [])

    def test_a_tree_on_one_machine(self) -> None:
        """A warning once there is something in it; an ensemble is in order."""
        cluster = ClusterContents(topics=TOPICS, groups=["g"], users=2)
        (own,) = examine_tree(cluster, None, "/d/coordination")
        self.assertEqual(own.level, Level.WARNING)
        self.assertIn("/d/coordination alone: 2 topics with settings, the positions of 1 group, 2 users", own.text)
        self.assertEqual(worst(examine_tree(cluster, "h:2181", "")), Level.WARNING)
        self.assertEqual(worst(examine_tree(ClusterContents(), "h:2181", "")), Level.NOTE)
        (hidden,) = examine_tree(ClusterContents(hidden=True), "h:2181", "")
        self.assertEqual(hidden.level, Level.WARNING)
        self.assertIn("0 topics with settings, what only brokers may read there", hidden.text)
        self.assertNotIn("group", hidden.text)
        self.assertEqual(worst(examine_tree(cluster, "a:1,b:1,c:1/logd", "")), Level.OK)


class OpenTreeTests(SynchronousTestCase):
    """A tree that strangers may change."""

    def test_the_network_makes_it_a_problem(self) -> None:
        """On this machine alone it is a note."""
        cluster = ClusterContents(open_to_change=True)
        self.assertEqual(worst(examine_open_tree(cluster, "127.0.0.1:2181,[::1]:2181")), Level.NOTE)
        self.assertEqual(worst(examine_open_tree(cluster, "localhost,[::1]/logd")), Level.NOTE)
        self.assertEqual(worst(examine_open_tree(cluster, "10.0.0.1:2181/logd")), Level.PROBLEM)
        self.assertEqual(worst(examine_open_tree(ClusterContents(open_to_change=False), "10.0.0.1:2181")), Level.OK)
        self.assertEqual(worst(examine_open_tree(ClusterContents(open_to_read=True), "10.0.0.1:2181")), Level.PROBLEM)
        self.assertEqual(list(examine_open_tree(ClusterContents(), "10.0.0.1:2181")), [])
