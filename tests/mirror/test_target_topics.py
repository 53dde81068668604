"""Tests of logd.mirror.target_topics: the settings of the topics that a mirror makes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from attrs import define, field

from logd.client.admin.admin import Admin
from logd.coord.registries.topics import create_topic
from logd.errors import UnknownTopic
from logd.mirror.target_topics import TargetTopics
from logd.mirror.topic_names import TopicChoice
from logd.protocol.requests.alter_topic import AlterTopicResponse
from logd.topic import TopicEntry
from tests.coord.registries.rig import RegistryTestCase


@define
class TargetAdmin:
    """The target's topics, with the settings that they were made with."""

    made: dict[str, Mapping[str, Any]] = field(factory=dict)

    async def alter(self, topic: str) -> AlterTopicResponse:
        """Return a topic as it is."""
        if topic not in self.made:
            raise UnknownTopic(topic)
        return AlterTopicResponse(0, "t1", 1, {name: str(value) for name, value in self.made[topic].items()})

    async def create(self, topic: str, partitions: int, settings: Mapping[str, Any]) -> None:
        """Make a topic."""
        self.made[topic] = settings

    async def describe_logs(self, topic: str, partitions: range) -> dict[int, Any]:
        """Return no logs."""
        return {}


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
