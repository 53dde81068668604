"""Tests of logd.mirror.target_topics: the settings of the topics that a mirror makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from attrs import define, field

from logd.client.admin.admin import Admin
from logd.coord.registries.topics import create_topic
from logd.errors import BrokerUnavailable, PartitionOffline, UnknownTopic
from logd.mirror.target_topics import TargetTopics
from logd.mirror.topic_names import TopicChoice
from logd.protocol.requests.alter_topic import AlterTopicResponse
from logd.protocol.requests.describe_log import DescribeLogResponse
from logd.topic import TopicEntry
from tests.coord.registries.rig import RegistryTestCase


@define
class TargetAdmin:
    """The target's topics, with the settings that they were made with."""

    made: dict[str, Mapping[str, Any]] = field(factory=dict)
    partitions: int = 1
    #: The error of asking for the log of a partition, by partition.
    failures: dict[int, Exception] = field(factory=dict)

    async def alter(self, topic: str) -> AlterTopicResponse:
        """Return a topic as it is."""
        if topic not in self.made:
            raise UnknownTopic(topic)
        return AlterTopicResponse(
            0, "t1", self.partitions, {name: str(value) for name, value in self.made[topic].items()}
        )

    async def create(self, topic: str, partitions: int, settings: Mapping[str, Any]) -> None:
        """Make a topic."""
        self.made[topic] = settings

    async def describe_log(self, topic: str, partition: int) -> DescribeLogResponse:
        """Return a log that ends at 70."""
        if partition in self.failures:
            raise self.failures[partition]
        return DescribeLogResponse(0, visible_end=70)


class TargetTopicsTests(RegistryTestCase):
    """``TargetTopics``."""

    def test_a_compacted_topic_is_kept_whole_on_the_target_too(self) -> None:
        """Its copy has no cleanup.policy, so it is kept without an end."""
        admin = TargetAdmin()
        topics = TargetTopics(TopicChoice(".*"), "here", "there", self.tree, cast(Admin, admin))
        for policy, expected in (
            ("compact", {"retention.ms": -1, "retention.bytes": -1}),
            ("compact,delete", {"retention.ms": 7}),
        ):
            entry = TopicEntry("u1", {0: (1,)}, {"retention.ms": 7}, {"cleanup.policy": policy})
            name = policy.replace(",", "-")
            self.outcome(create_topic(self.tree, name, entry))
            self.outcome(topics.prepare(name))
            self.assertEqual(dict(admin.made[name]), {**expected, "mirrored.from": "here"})

    def test_a_partition_of_the_target_that_is_away_keeps_no_other_one_back(self) -> None:
        """A mirror that starts while one of the target's brokers is down begins with the partitions of the others."""
        away = (BrokerUnavailable("no route"), PartitionOffline("no disk"))
        admin = TargetAdmin(partitions=3, failures=dict(enumerate(away, 1)))
        topics = TargetTopics(TopicChoice(".*"), "here", "there", self.tree, cast(Admin, admin))
        self.outcome(create_topic(self.tree, "web", TopicEntry("u1", dict.fromkeys(range(3), (1,)))))
        found = self.outcome(topics.prepare("web"))
        self.assertEqual((found.target_partitions, found.ends), (3, {0: 70}))
        admin.failures = {1: UnknownTopic("deleted meanwhile")}
        self.assertIsInstance(self.error(topics.prepare("web")), UnknownTopic)
