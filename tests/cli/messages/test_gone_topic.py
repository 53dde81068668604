"""Tests of logd.cli.messages.gone_topic."""

from __future__ import annotations

from typing import cast

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.cli.messages.gone_topic import LOOK_SECONDS, LOOKS, read_while_there
from logd.client.admin.admin import Admin
from logd.errors import BrokerUnavailable, OffsetOutOfRange, UnknownTopic
from logd.protocol.requests.metadata import MetadataResponse, MetadataResponseV1, TopicMetadata


class Described:
    """A double of Admin: the topic has ``uuid``, or is not known if that is empty; or each call raises ``error``."""

    def __init__(self) -> None:
        self.uuid = "uuid"
        self.error: Exception | None = None
        #: None for a broker of an earlier release.
        self.cluster: str | None = "c"

    async def metadata(self, topics: tuple[str]) -> MetadataResponse:
        """See Admin."""
        if self.error is not None:
            raise self.error
        (topic,) = topics
        found = TopicMetadata(topic, 0 if self.uuid else UnknownTopic.code, self.uuid, ())
        if self.cluster is None:
            return MetadataResponse((), (found,))
        return MetadataResponseV1((), (found,), self.cluster)


class ReadWhileThereTests(SynchronousTestCase):
    """``read_while_there`` of a topic with the uuid "uuid"."""

    def setUp(self) -> None:
        """Begin to read."""
        self.clock, self.admin = Clock(), Described()
        self.reading: Deferred[None] = Deferred()

        async def read() -> None:
            await self.reading

        admin = cast(Admin, self.admin)
        self.running = Deferred.fromCoroutine(read_while_there(self.clock, admin, "clicks", "uuid", read()))
        self.pass_looks()
        self.assertNoResult(self.running)

    def pass_looks(self) -> None:
        """Let the time of some looks pass."""
        self.clock.pump([LOOK_SECONDS] * LOOKS)

    def test_the_end_of_the_reading(self) -> None:
        """Nobody looks any longer."""
        self.reading.callback(None)
        self.assertIsNone(self.successResultOf(self.running))
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_an_error_of_the_reading(self) -> None:
        """It is that of the command."""
        self.reading.errback(OffsetOutOfRange("there is none"))
        self.failureResultOf(self.running, OffsetOutOfRange)
        self.assertEqual(self.clock.getDelayedCalls(), [])

    def test_a_deleted_topic(self) -> None:
        """Its end never comes."""
        self.admin.uuid = ""
        self.clock.advance(LOOK_SECONDS)
        self.assertNoResult(self.running)
        self.pass_looks()
        error = self.failureResultOf(self.running, UnknownTopic).value
        self.assertIn("topic 'clicks' was deleted before it was read to its end", str(error))

    def test_a_topic_that_is_made_again(self) -> None:
        """It has other messages."""
        self.admin.uuid = "another"
        self.pass_looks()
        error = self.failureResultOf(self.running, UnknownTopic).value
        self.assertIn("topic 'clicks' was made again before", str(error))

    def test_a_broker_that_has_not_reached_the_tree(self) -> None:
        """It knows the topics of its own directory alone, as they were when it was stopped."""
        self.admin.cluster = ""
        for self.admin.uuid in ("", "former"):
            self.clock.pump([LOOK_SECONDS] * 10)
            self.assertNoResult(self.running)
        self.admin.cluster, self.admin.uuid = "c", ""
        self.pass_looks()
        self.failureResultOf(self.running, UnknownTopic)

    def test_a_broker_of_an_earlier_release(self) -> None:
        """It does not tell the cluster, and is believed."""
        self.admin.cluster, self.admin.uuid = None, ""
        self.pass_looks()
        self.failureResultOf(self.running, UnknownTopic)

    def test_an_outage_and_an_interruption(self) -> None:
        """The first is waited for, and the second ends the reading."""
        self.admin.error = BrokerUnavailable("away")
        self.clock.pump([LOOK_SECONDS] * 10)
        self.assertNoResult(self.running)
        self.running.cancel()
        self.failureResultOf(self.running, CancelledError)
        self.assertTrue(self.reading.called)
