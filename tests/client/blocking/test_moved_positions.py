"""Tests of a thread that reads in a group while the group's positions are moved from outside."""

from __future__ import annotations

import contextlib
import time
from itertools import islice
from typing import Any, cast

from twisted.internet import reactor
from twisted.internet.defer import Deferred

from logd.client.blocking.group_stream import BlockingGroupStream
from logd.client.blocking.reactor_thread import wait_there
from logd.coord.groups.group_changes import move_positions
from logd.coord.registries.offsets import OffsetRegistry
from logd.protocol.message import Message
from logd.testing.inprocess.client import InProcessCoordination
from logd.topic import TopicPartition
from tests.client.blocking.test_group_stream import BlockingGroupTestCase


class BlockingMovedPositionsTests(BlockingGroupTestCase):
    """``logd groups reset --force --to-earliest``, and what the thread has in hand then."""

    async def reset(self) -> None:
        """Move the group's positions to the start, as `logd groups reset --force` does."""
        seen = await OffsetRegistry(self.eye, "g").read_all("topic1")
        places = {TopicPartition("topic1", number): offset for number, offset in seen.items()}
        await move_positions(self.eye, "g", places, dict.fromkeys(places, 0))

    def reset_meanwhile(self, stream: BlockingGroupStream, given: list[int]) -> None:
        """Move the positions while the thread has a message, until messages of before it are between the threads."""
        before = len(given)
        wait_there(cast(Any, reactor), lambda: Deferred.fromCoroutine(self.reset()))
        deadline = time.monotonic() + 60.0
        while len(given) == before or len(stream._thread_queue._items) < 4:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    async def test_a_message_from_before_a_reset_does_not_count_behind_it(self) -> None:
        """The thread is busy with it while the positions are moved to the start: all before it is to be read again."""
        for how in ("taken", "handled"):
            tree = await self.tree()
            given: list[int] = []

            def work(tree: InProcessCoordination = tree, how: str = how, given: list[int] = given) -> int:
                with self.group(
                    tree, decode_messages=10, commit=how, on_assigned=lambda places: given.append(len(places))
                ) as consumer:
                    (stream,) = consumer.create_message_streams("topic1", 1)
                    assert isinstance(stream, BlockingGroupStream)
                    for message in islice(stream, 25):
                        stream.handled(message)
                    consumer.commit()
                    self.reset_meanwhile(stream, given)
                    stream.handled(message)
                    again = stream.get(60.0)
                    consumer.commit()
                    return again.id

            self.assertEqual(await self.on_thread(work), 0)
            self.assertEqual(await self.committed(), 0)

    async def test_a_message_that_was_handled_during_a_reset_does_not_count_behind_it(self) -> None:
        """Its function has returned when the positions are at the start."""
        tree = await self.tree()
        given: list[int] = []
        handled: list[int] = []
        stored: list[int] = []

        def work() -> None:
            with self.group(
                tree, decode_messages=10, commit="handled", on_assigned=lambda places: given.append(len(places))
            ) as consumer:
                (stream,) = consumer.create_message_streams("topic1", 1)
                assert isinstance(stream, BlockingGroupStream)

                def handle(message: Message) -> None:
                    handled.append(message.id)
                    if len(handled) == 25:
                        self.reset_meanwhile(stream, given)
                    elif len(handled) == 26:
                        consumer.commit()
                        stored.append(wait_there(cast(Any, reactor), lambda: Deferred.fromCoroutine(self.committed())))
                        raise ValueError("broken")

                with contextlib.suppress(ValueError):
                    stream.handle(handle, retries=0)

        await self.on_thread(work)
        self.assertEqual((handled[25], stored), (0, [0]))

    async def test_a_message_that_fails_during_a_reset_does_not_move_the_position_back_to_it(self) -> None:
        """Reading goes on at the start, where the positions are by then."""
        tree = await self.tree()
        given: list[int] = []
        handled: list[int] = []

        def work() -> int:
            with self.group(tree, decode_messages=10, on_assigned=lambda places: given.append(len(places))) as consumer:
                (stream,) = consumer.create_message_streams("topic1", 1)
                assert isinstance(stream, BlockingGroupStream)

                def handle(message: Message) -> None:
                    handled.append(message.id)
                    if len(handled) == 25:
                        self.reset_meanwhile(stream, given)
                        raise ValueError("broken")

                with contextlib.suppress(ValueError):
                    stream.handle(handle, retries=0)
                return stream.get(60.0).id

        self.assertEqual(await self.on_thread(work), 0)
        self.assertEqual(await self.committed(), 0)

    async def test_messages_of_before_a_reset_do_not_count_for_those_that_were_not_handed_over_again(self) -> None:
        """The thread has gone on to messages of after it when it marks one of before."""
        tree = await self.tree()
        given: list[int] = []

        def work() -> None:
            with self.group(
                tree, decode_messages=10, commit="handled", on_assigned=lambda places: given.append(len(places))
            ) as consumer:
                (stream,) = consumer.create_message_streams("topic1", 1)
                assert isinstance(stream, BlockingGroupStream)
                messages = list(islice(stream, 25))
                stream.handled(messages[-2])
                consumer.commit()
                self.reset_meanwhile(stream, given)
                for _ in range(2):
                    stream.get(60.0)
                for message in messages:
                    stream.handled(message)
                consumer.commit()

        await self.on_thread(work)
        self.assertLessEqual(await self.committed(), 2)

    async def test_a_batch_that_is_taken_during_a_reset_does_not_count_behind_it(self) -> None:
        """The thread stands still between the queue and its next instruction."""
        tree = await self.tree()
        given: list[int] = []

        def work() -> int:
            with self.group(tree, decode_messages=10, on_assigned=lambda places: given.append(len(places))) as consumer:
                (stream,) = consumer.create_message_streams("topic1", 1)
                assert isinstance(stream, BlockingGroupStream)
                for _ in islice(stream, 20):
                    pass
                consumer.commit()
                get = stream._thread_queue.get

                def slow(timeout: float | None = None) -> Any:
                    taken = get(timeout)
                    self.patch(stream._thread_queue, "get", get)
                    self.reset_meanwhile(stream, given)
                    return taken

                self.patch(stream._thread_queue, "get", slow)
                stream.get(60.0)
                while (message := stream.get(60.0)).id:  # the rest of the batch
                    pass
                consumer.commit()
                return message.id

        self.assertEqual(await self.on_thread(work), 0)
        self.assertEqual(await self.committed(), 0)
