"""Tests of the positions that a group commits when an application reads its stream in one way after the other."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, TypeVar

from twisted.internet.defer import CancelledError, Deferred

from logd.protocol.message import Message
from logd.topic import TopicPartition
from tests.client.groups import Application, ClientGroupTestCase

#: Bytes of one of the topic's entries: length, magic, crc and "t-0-0000".
ENTRY = 4 + 1 + 4 + 8
#: Those of topic "one".
ENTRY_OF_ONE = ENTRY + 2

T = TypeVar("T")


class MixedReadingTests(ClientGroupTestCase):
    """A stream whose messages are read one by one, then by a handler or raw."""

    def positions(self, app: Application) -> list[int]:
        """Commit, and return the stored positions."""
        committing = app.consumer.commit()
        self.run_for(0.05)
        self.successResultOf(committing)
        return [int(self.committed(number)) for number in range(4)]

    def test_a_handler_begins_behind_the_messages_handed_over_one_by_one(self) -> None:
        """The rest of their batch counts only once it is handled."""
        app = Application(self, commit_interval=0.0)
        self.run_for(0.5)
        (stream,) = app.streams
        first = self.successResultOf(stream.get())
        stream.handle(lambda message: Deferred())
        self.run_for(0.5)
        expected = [0] * 4
        expected[first.partition] = ENTRY
        self.assertEqual(self.positions(app), expected)

    def test_a_handling_that_ends_while_its_partitions_are_taken_away_commits_what_was_handled(self) -> None:
        """The next member goes on at the message that was in work."""
        cut: list[Deferred[None]] = []

        def revoked(places: list[TopicPartition]) -> None:
            for each in cut:
                each.addErrback(lambda failure: failure.trap(CancelledError) and None)
                each.cancel()

        app = Application(self, commit_interval=0.0, on_revoked=revoked)
        self.run_for(0.5)
        (stream,) = app.streams
        cut.append(stream.handle(lambda message: Deferred() if message.id == 3 * ENTRY else None, concurrency=4))
        self.run_for(0.5)
        self.assertEqual(self.positions(app), [3 * ENTRY] * 4)
        other = Application(self)
        self.run_for(1.0)
        self.assertEqual(len(other.streams[0].partitions()), 2)
        self.assertEqual([int(self.committed(number)) for number in range(4)], [3 * ENTRY] * 4)

    def test_a_handler_that_ends_later_than_its_handling_is_not_committed(self) -> None:
        """It cleans up when it is cancelled, as a task of asyncio may; the consumer is closed meanwhile."""
        cleaned: Deferred[None] = Deferred()

        async def handler(message: Message) -> None:
            if message.id == 3 * ENTRY:
                try:
                    await Deferred()
                finally:
                    await cleaned

        app = Application(self, commit_interval=0.0)
        self.run_for(0.5)
        handling = app.streams[0].handle(handler, concurrency=4)
        self.run_for(0.5)
        handling.cancel()
        self.failureResultOf(handling, CancelledError)
        closing = app.consumer.close()
        self.run_for(0.1)
        self.successResultOf(closing)
        self.assertEqual([int(self.committed(number)) for number in range(4)], [3 * ENTRY] * 4)
        cleaned.callback(None)

    def test_a_handler_that_ends_later_leaves_the_next_handling_alone(self) -> None:
        """The next one has the message in work by then; its partition hands no other one over meanwhile."""
        cleaned: Deferred[None] = Deferred()
        got: list[int] = []

        async def handler(message: Message) -> None:
            if message.partition == 2 and message.id == 3 * ENTRY:
                try:
                    await Deferred()
                finally:
                    await cleaned

        app = Application(self, commit_interval=0.0)
        self.run_for(0.5)
        (stream,) = app.streams
        handling = stream.handle(handler, concurrency=4)
        self.run_for(0.5)
        handling.cancel()
        self.failureResultOf(handling, CancelledError)

        def busy(message: Message) -> Deferred[None]:
            got.append(message.id)
            return Deferred()

        stream.handle(busy, concurrency=4)
        self.run_for(0.5)
        cleaned.callback(None)
        self.run_for(0.5)
        self.assertEqual(got, [3 * ENTRY])
        expected = [50 * ENTRY] * 4
        expected[2] = 3 * ENTRY
        self.assertEqual(self.positions(app), expected)

    def test_raw_bytes_begin_behind_the_messages_handed_over_one_by_one(self) -> None:
        """The rest of their batch is neither passed nor committed."""
        app = Application(self, commit_interval=0.0)
        self.run_for(0.5)
        (stream,) = app.streams
        first = self.successResultOf(stream.get())
        chunks = stream.raw()
        begun: dict[int, int] = {}
        for _ in range(4):
            chunk = self.successResultOf(Deferred.fromCoroutine(_anext(chunks)))
            begun.setdefault(chunk.partition, chunk.position)
            self.run_for(0.2)
        expected = dict.fromkeys(range(4), 0)
        expected[first.partition] = ENTRY
        self.assertEqual(begun, expected)

    def taken(self, items: AsyncIterator[T]) -> T:
        """Return the next item, which is there already."""
        return self.successResultOf(Deferred.fromCoroutine(_anext(items)))

    def alone(self, **settings: Any) -> Application:
        """Return a member of a group that reads a topic of one partition."""
        self.topic("one", 1, 50)
        app = Application(self, "one", commit_interval=0.0, decode_messages=10, **settings)
        self.run_for(0.5)
        return app

    def stored(self, app: Application) -> float:
        """Commit, and return the number of messages before the stored position."""
        committing = app.consumer.commit()
        self.run_for(0.05)
        self.successResultOf(committing)
        return int(self.committed(0, "one")) / ENTRY_OF_ONE

    def test_batches_go_on_with_the_rest_of_one_that_was_begun_in_between(self) -> None:
        """The body of the loop looks at one message, as at a header; the rest is not left out."""
        app = self.alone()
        batches = app.streams[0].batches()
        self.assertEqual(self.taken(batches).position, 0)
        self.assertEqual(self.successResultOf(app.streams[0].get()).id, ENTRY_OF_ONE * 10)
        rest = self.taken(batches)
        self.assertEqual((rest.position, len(rest.messages)), (ENTRY_OF_ONE * 11, 9))
        self.assertEqual(self.stored(app), 11)
        self.assertEqual(self.taken(batches).position, ENTRY_OF_ONE * 20)

    def test_raw_bytes_go_on_behind_a_message_that_was_handed_over_in_between(self) -> None:
        """The chunks have the rest of its batch."""
        app = self.alone(fetch_bytes=ENTRY_OF_ONE * 5)
        chunks = app.streams[0].raw()
        read = self.taken(chunks).next_position
        self.run_for(0.1)
        message = self.successResultOf(app.streams[0].get())
        self.assertEqual(message.id, read)
        self.run_for(0.1)
        begun = Deferred.fromCoroutine(_anext(chunks))
        self.run_for(0.1)
        self.assertEqual(self.successResultOf(begun).position, message.next_position)
        self.assertEqual(self.stored(app), message.next_position // ENTRY_OF_ONE)

    def test_a_handler_that_reads_on_itself_leaves_no_message_out(self) -> None:
        """It takes one message of another partition; the rest of that one's batch is handled."""
        app = Application(self, commit_interval=0.0, decode_messages=10)
        self.run_for(0.5)
        got: list[Message] = []

        async def handler(message: Message) -> None:
            got.append(message)
            if len(got) == 1:
                got.append(await app.streams[0].get())

        app.streams[0].handle(handler)
        self.run_for(1.0)
        self.assertEqual(sorted(app.payloads(got)), self.everything())
        self.in_order(got)


async def _anext(items: AsyncIterator[T]) -> T:
    return await anext(items)
