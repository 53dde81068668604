"""Tests of the messages that the console shows of a partition."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, Self

from attrs import frozen
from twisted.internet.defer import Deferred, succeed

from logd.client.consumer.fetching.batches import MessageBatch
from logd.protocol.message import Message
from logd.protocol.requests.describe_log import DescribeLogResponse
from logd.web.console.sources import MOST_LOOKED_AT, ConsoleSources
from tests.web.console.test_console_pages import PagesTestCase

#: Messages of a batch, and their bytes in the log.
BATCH, SIZE = 2000, 10


@frozen
class Log:
    """A log of small messages that are numbered, as clients see it: an admin, a consumer and its one stream."""

    count: int

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is open."""

    def describe_log(self, topic: str, partition: int, positions: Any = (), time: int = -1) -> Deferred[Any]:
        """Return the ends of the log; each position is a boundary."""
        end = self.count * SIZE
        return succeed(DescribeLogResponse(0, 0, end, end, boundaries=tuple(positions)))

    def create_message_streams(self, *_: Any) -> tuple[Self]:
        """Return the stream."""
        return (self,)

    async def batches(self, until: Any) -> AsyncIterator[MessageBatch]:
        """Yield all messages."""
        for first in range(0, self.count, BATCH):
            numbers = range(first, min(first + BATCH, self.count))
            messages = [
                Message(b"%d" % each)._replace(id=each * SIZE, next_position=(each + 1) * SIZE) for each in numbers
            ]
            yield MessageBatch("t", 0, messages, numbers[0] * SIZE, numbers[-1] * SIZE + SIZE, self.count * SIZE, ())


class LogSources(ConsoleSources):
    """The sources of a console over that log."""

    log = Log(0)

    def _admin(self) -> Any:
        return self.log

    def consumer(self) -> Any:
        """Return the client of the log."""
        return self.log


class MessagesTests(PagesTestCase):
    """A partition of small messages, of which a batch of the consumer has a part."""

    def shown(self, count: int, **query: Any) -> list[bytes | None]:
        """Return the payloads of the messages that are shown of so many."""
        source = LogSources(self.clock, lambda: self.broker, lambda: self.access.client)
        source.log = Log(count)
        reading = Deferred.fromCoroutine(source.messages("t", 0, query.get("start"), 2))
        self.settle()
        return [message.payload for message in self.successResultOf(reading).messages]

    def test_the_last_messages_are_the_last_ones(self) -> None:
        """Many batches may lie between the place where reading begins and the end."""
        self.assertEqual(self.shown(3 * BATCH), [b"5998", b"5999"])
        self.assertEqual(self.shown(3 * BATCH, start="earliest"), [b"0", b"1"])

    def test_it_does_not_read_for_ever(self) -> None:
        """A compressed set of some KiB may hold a million messages."""
        found = self.shown(10 * MOST_LOOKED_AT)
        self.assertEqual(found[-1], b"%d" % (MOST_LOOKED_AT - 1))
