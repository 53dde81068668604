"""Tests of the end of `logd dead-letters replay`: it waits for the group's positions, and not for ever."""

from __future__ import annotations

from typing import Any, cast

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.cli.dead_letters.replay import LOOK_SECONDS, ReplayEnds, until_there
from logd.client.admin.admin import Admin
from logd.coord.registries.offsets import OffsetRegistry
from logd.errors import BrokerUnavailable, UnknownTopic
from logd.protocol.requests.metadata import TopicMetadata


class Described:
    """A double of Admin: describes a topic by ``uuid``, or fails with ``error``."""

    def __init__(self) -> None:
        self.uuid = "uuid"
        self.error: Exception | None = None

    async def describe(self, topic: str) -> TopicMetadata:
        """See Admin."""
        if self.error is not None:
            raise self.error
        return TopicMetadata(topic, 0, self.uuid, ())


class NoOffsets:
    """A double of OffsetRegistry: of a group that has stored nothing."""

    async def read_all(self, topic: str) -> dict[int, Any]:
        """See OffsetRegistry."""
        return {}


class UntilThereTests(SynchronousTestCase):
    """A replay whose positions do not move."""

    def setUp(self) -> None:
        """Begin to wait for one partition's end."""
        self.clock, self.admin = Clock(), Described()
        self.waiting: Deferred[None] = Deferred.fromCoroutine(
            until_there(
                self.clock,
                cast(Admin, self.admin),
                cast(OffsetRegistry, NoOffsets()),
                "orders.dead",
                ReplayEnds("uuid", {0: 100}, 100),
            )
        )
        self.assertNoResult(self.waiting)

    def test_a_deleted_topic(self) -> None:
        """The positions of a topic that was deleted never come to the end: the replay fails."""
        self.admin.error = UnknownTopic("there is none")
        self.clock.advance(LOOK_SECONDS)
        error = self.failureResultOf(self.waiting, UnknownTopic).value
        self.assertIn("topic 'orders.dead' was deleted during the replay", str(error))

    def test_a_topic_that_is_made_again(self) -> None:
        """A new topic of the same name has other letters."""
        self.admin.uuid = "another"
        self.clock.advance(LOOK_SECONDS)
        error = self.failureResultOf(self.waiting, UnknownTopic).value
        self.assertIn("topic 'orders.dead' was made again during the replay", str(error))

    def test_brokers_that_are_away(self) -> None:
        """An outage is waited for, as the consumer does."""
        self.admin.error = BrokerUnavailable("away")
        self.clock.pump([LOOK_SECONDS] * 10)
        self.assertNoResult(self.waiting)
        self.waiting.cancel()
        self.failureResultOf(self.waiting)
