"""Tests of logd.aio.consumer and its streams with a broker in memory, on an event loop of asyncio."""

from __future__ import annotations

import asyncio

from logd.errors import (
    ClientClosed,
    ConfigurationError,
)
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from tests.aio.loops import ModelTestCase


class ConsumerTests(ModelTestCase):
    """``AsyncioConsumer`` and ``AsyncioStream``."""

    def store(self, count: int) -> None:
        """Put numbered messages into the log."""
        self.log.data += encode_set([Message(b"%d" % number) for number in range(count)])

    def test_a_stream_yields_messages_in_order(self) -> None:
        """It goes on where an earlier loop over it stopped, in every way of reading."""

        async def main() -> list[bytes | None]:
            self.begin()
            self.store(10)
            found = []
            async with self.consumer() as consumer, consumer.stream("t") as stream:
                async for message in stream:
                    found.append(message.payload)
                    if len(found) == 3:
                        break
                found.append((await stream.get()).payload)
                ends = await stream.end_positions()
                async for batch in stream.batches(until=ends):
                    found += [message.payload for message in batch.messages]
                self.assertEqual(stream.positions(), ends)
                self.assertEqual(await stream.assigned(), (0,))
                stream.seek(0, 0)
                async for chunk in stream.raw(until=ends):
                    self.assertEqual(bytes(chunk.data), bytes(self.log.data))
            return found

        self.assertEqual(self.run_loop(main), [b"%d" % number for number in range(10)])

    def test_a_task_that_is_cancelled_while_it_waits_loses_nothing(self) -> None:
        """The messages come to the next one that reads, in each way of reading."""

        async def main() -> None:
            self.begin()
            async with self.consumer() as consumer:
                stream = consumer.stream("t")

                async def through_batches() -> bytes | None:
                    async for batch in stream.batches():
                        return batch.messages[0].payload
                    return None

                async def one_by_one() -> bytes | None:
                    async for message in stream:
                        return message.payload
                    return None

                async def get() -> bytes | None:
                    return (await stream.get()).payload

                for number, read in enumerate((get, one_by_one, through_batches)):
                    with self.assertRaises(TimeoutError):
                        async with asyncio.timeout(0.02):
                            await read()
                    self.log.data += encode_set([Message(b"%d" % number)])
                    self.assertEqual(await read(), b"%d" % number)

        self.run_loop(main)

    def test_a_handling_that_is_cancelled_goes_back_at_once(self) -> None:
        """The task of its function ends later, and a program may store the positions before that."""

        async def main() -> None:
            self.begin()
            self.store(10)
            async with self.consumer() as consumer:
                stream = consumer.stream("t")
                handled: list[Message] = []
                busy = asyncio.Event()

                async def handler(message: Message) -> None:
                    if len(handled) == 3:
                        busy.set()
                        await asyncio.Event().wait()
                    handled.append(message)

                handling = asyncio.create_task(stream.handle(handler))
                await busy.wait()
                handling.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await handling
                self.assertEqual(stream.positions(), {0: handled[-1].next_position})
                self.assertEqual((await stream.get()).payload, b"3")

        self.run_loop(main)

    def test_closing_ends_every_way_of_reading(self) -> None:
        """A task that waits is told."""

        async def main() -> None:
            self.begin()
            async with self.consumer() as consumer:
                stream = consumer.stream("t")
                task = asyncio.create_task(stream.get())
                await asyncio.sleep(0.01)
                stream.close()
                with self.assertRaises(ClientClosed):
                    await task
                self.assertEqual([message async for message in stream], [])
                self.assertEqual([batch async for batch in stream.batches()], [])
            with self.assertRaises(ClientClosed):
                consumer.stream("t")

        self.run_loop(main)

    def test_several_streams_share_the_partitions(self) -> None:
        """Each is for a task of its own."""

        async def main() -> None:
            self.begin(partitions=3)
            async with self.consumer() as consumer:
                streams = consumer.create_message_streams("t", 2)
                self.assertEqual([await stream.assigned() for stream in streams], [(0, 1), (2,)])

        self.run_loop(main)

    def test_a_group_stream_is_refused_without_a_group(self) -> None:
        """The error names the remedy."""

        async def main() -> None:
            self.begin()
            async with self.consumer() as consumer:
                with self.assertRaisesRegex(TypeError, "give group="):
                    consumer.group_stream("t")
                with self.assertRaisesRegex(ConfigurationError, "give group="):
                    await consumer.commit()

        self.run_loop(main)
