"""Tests of logd.cli.messages.group_consume: what a member does with messages that it cannot write."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logd.cli.messages.group_consume import Member
from logd.cli.terminal.progress import ProgressLine
from logd.protocol.message import Message


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
