"""Tests of logd.cli.messages.group_consume: what a member does with messages that it cannot write."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any, cast

from attrs import define, field
from twisted.internet.defer import Deferred, succeed
from twisted.trial.unittest import SynchronousTestCase

from logd.cli.messages.group_consume import LOOK_SECONDS, GroupEnds, Member, until_handled
from logd.cli.terminal.progress import ProgressLine
from logd.client.consumer.consumer import Consumer
from logd.coord import paths
from logd.errors import UnknownTopic
from logd.protocol.message import Message
from tests.backup.test_backup_file import NODES
from tests.coord.registries.rig import RegistryTestCase


@define
class BatchToWrite:
    """A batch without losses."""

    messages: Sequence[Message]
    losses: tuple[()] = ()


@define
class StreamToWrite:
    """A stream of some batches, which keeps what is handled."""

    messages: list[Message]
    done: list[object] = field(factory=list)

    async def batches(self) -> AsyncIterator[BatchToWrite]:
        """Yield each message as a batch."""
        for each in self.messages:
            yield BatchToWrite((each,))

    def handled(self, item: object) -> None:
        """Keep the item."""
        self.done.append(item)


class MemberTests(SynchronousTestCase):
    """``Member``."""

    def test_messages_that_cannot_be_written_end_the_reading(self) -> None:
        """Whatever the error: with the next batch they would be committed, and never have been written."""
        error = IndexError("list index out of range")

        def render(messages: Sequence[Message]) -> bytes:
            if messages[0].payload == b"bad":
                raise error
            return b""

        member: Any = Member(None, render, ProgressLine("", quiet=True))
        stream = StreamToWrite([Message(each) for each in (b"good", b"bad", b"good")])
        self.assertIsNone(self.successResultOf(Deferred.fromCoroutine(member.read(stream, None))))
        self.assertIs(member.failure, error)
        self.assertEqual(len(stream.done), 1)


class CommittingConsumer:
    """A double of Consumer that has nothing to commit."""

    def commit(self) -> Deferred[None]:
        """See Consumer."""
        return succeed(None)


class UntilHandledTests(RegistryTestCase):
    """``until_handled`` of a group that has stored nothing, in a topic with the uuid "u"."""

    def setUp(self) -> None:
        """Begin to wait for the end of one partition."""
        super().setUp()
        self.entry = NODES["/brokers/topics/t"]
        self.outcome(self.tree.create(paths.topic("t"), self.entry, makepath=True))
        consumer = cast(Consumer, CommittingConsumer())
        ends = GroupEnds("u", {0: (0, 100)})
        self.waiting = Deferred.fromCoroutine(until_handled(self.clock, consumer, self.tree, "g", "t", ends))
        self.pass_time(2 * LOOK_SECONDS)
        self.assertNoResult(self.waiting)

    def test_positions_at_the_end(self) -> None:
        """It is over."""
        self.outcome(self.tree.create(paths.group_offset("g", "t", 0), b"100", makepath=True))
        self.pass_time(2 * LOOK_SECONDS)
        self.assertIsNone(self.successResultOf(self.waiting))

    def test_a_deleted_topic(self) -> None:
        """Its positions never come to the end."""
        self.outcome(self.tree.delete(paths.topic("t")))
        self.pass_time(2 * LOOK_SECONDS)
        error = self.failureResultOf(self.waiting, UnknownTopic).value
        self.assertIn("topic 't' was deleted before", str(error))

    def test_a_topic_that_is_made_again(self) -> None:
        """Another topic of that name has other messages."""
        self.outcome(self.tree.set(paths.topic("t"), self.entry.replace(b'"u"', b'"v"')))
        self.pass_time(2 * LOOK_SECONDS)
        error = self.failureResultOf(self.waiting, UnknownTopic).value
        self.assertIn("topic 't' was made again before", str(error))
