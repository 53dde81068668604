"""Tests of logd.cli.cluster.admin_command: topics that change while a command waits."""

from __future__ import annotations

from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from logd.cli.cluster.admin_command import described_again
from logd.errors import UnknownTopic
from logd.protocol.requests.metadata import TopicMetadata


@define
class ChangedTopicAdmin:
    """An administration client that knows one topic."""

    topic: TopicMetadata

    def describe(self, topic: str) -> Deferred[TopicMetadata]:
        """Return the topic."""
        return succeed(self.topic)


class DescribedAgainTests(SynchronousTestCase):
    """``described_again``."""

    def again(self, before: TopicMetadata, now: TopicMetadata) -> Deferred[Any]:
        """Describe a topic that has become ``now``."""
        return Deferred.fromCoroutine(described_again(ChangedTopicAdmin(now), before))  # type: ignore[arg-type]  # it has what is needed

    def test_a_topic_that_was_made_again_is_another_one(self) -> None:
        """It may have fewer partitions than a command waits for."""
        one, other = (TopicMetadata("t", 0, uuid, ()) for uuid in ("u", "v"))
        self.assertIs(self.successResultOf(self.again(one, one)), one)
        self.assertIn("made again", str(self.failureResultOf(self.again(one, other), UnknownTopic).value))
