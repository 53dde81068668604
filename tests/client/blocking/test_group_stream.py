"""Tests of logd.client.blocking.group_stream: a group read by a thread, with a broker and a tree in memory."""

from __future__ import annotations

import contextlib
import time
from itertools import islice
from os import urandom
from typing import Any, cast

from twisted.internet import reactor
from twisted.internet.task import deferLater

from logd.client.blocking.clients import Consumer
from logd.client.blocking.group_stream import BlockingGroupStream
from logd.coord import paths
from logd.coord.registries.topics import encode_entry
from logd.coord.tree.no_journal import NoJournal
from logd.coord.tree.tree import Tree
from logd.coord.tree.tree_host import TreeHost
from logd.errors import CorruptMessage
from logd.interfaces import Clock
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from logd.testing.inprocess.client import InProcessCoordination
from logd.topic import TopicEntry
from tests.client.blocking.test_clients import BlockingTestCase

_CLOCK = cast(Clock, reactor)
ENTRY = 13


class BlockingGroupTestCase(BlockingTestCase):
    """A group's tree, and a topic of two partitions."""

    async def setUp(self) -> None:  # type: ignore[override]  # the tree answers in its time
        """Make a tree, and a topic of two partitions of a hundred messages each."""
        super().setUp()
        self.host = TreeHost(Tree(), NoJournal(), _CLOCK, urandom)
        self.host.start()
        self.addCleanup(self.host.stop)
        self.eye = await self.tree()
        await self.eye.create(paths.broker(7), b"{}", ephemeral=True, makepath=True)
        entry = encode_entry(TopicEntry("uuid-topic1", {0: (7,), 1: (7,)}))
        await self.eye.create(paths.topic("topic1"), entry, makepath=True)
        for number, log in self.logs.items():
            log.data += encode_set([Message(b"%d%03d" % (number, index)) for index in range(100)])

    async def tree(self) -> InProcessCoordination:
        """Make a client of the tree."""
        client = InProcessCoordination(self.host, _CLOCK)
        await client.connect()
        self.addCleanup(client.close)
        return client

    def group(self, tree: InProcessCoordination, **settings: Any) -> Consumer:
        """Make a consumer of group g."""
        return self.consumer(
            group="g", coordination=tree, **{"commit_interval": 0.0, "rebalance_delay": 0.0, **settings}
        )

    async def committed(self) -> int:
        """Return the number of committed messages, over both partitions."""
        total = 0
        for number in (0, 1):
            data, _ = await self.eye.get(paths.group_offset("g", "topic1", number))
            total += int(data or b"0") // ENTRY
        return total


class BlockingGroupTests(BlockingGroupTestCase):
    """Groups whose consumers block."""

    async def test_messages_between_the_threads_are_not_committed(self) -> None:
        """The message that the thread has in hand is not, either; the rest is committed at close."""
        tree = await self.tree()

        def work() -> list[bytes | None]:
            with self.group(tree, decode_messages=7) as consumer:
                (stream,) = consumer.create_message_streams("topic1", 1)
                return [message.payload for message in islice(stream, 30)]

        seen = await self.on_thread(work)
        self.assertEqual(len(seen), 30)
        self.assertEqual(await self.committed(), 29)

        def others() -> list[bytes | None]:
            with self.group(tree) as consumer:
                (stream,) = consumer.create_message_streams("topic1", 1)
                return [message.payload for message in islice(stream, 171)]

        rest = await self.on_thread(others)
        self.assertEqual(sorted({*seen, *rest}), sorted(self.logs[0].payloads() + self.logs[1].payloads()))

    async def test_a_batch_counts_once_the_next_is_asked_for(self) -> None:
        """Until then the thread may be busy with it."""
        tree = await self.tree()

        def work() -> int:
            with self.group(tree, decode_messages=10) as consumer:
                (stream,) = consumer.create_message_streams("topic1", 1)
                for _ in islice(stream.batches(), 3):
                    pass
                consumer.commit()
                return len(stream.positions())

        await self.on_thread(work)
        self.assertEqual(await self.committed(), 20)

    async def test_batches_begin_with_the_rest_of_the_one_at_hand(self) -> None:
        """It was begun message by message, and its rest counts once the batch behind it is asked for."""
        tree = await self.tree()

        def work() -> list[tuple[int, int]]:
            with self.group(tree, decode_messages=10) as consumer:
                (stream,) = consumer.create_message_streams("topic1", 1)
                for _ in islice(stream, 3):
                    pass
                seen = []
                for batch in islice(stream.batches(), 3):
                    consumer.commit()
                    seen.append((batch.position, len(batch.messages)))
                return seen

        seen = await self.on_thread(work)
        self.assertEqual(seen, [(ENTRY * 3, 7), (0, 10), (ENTRY * 10, 10)])
        self.assertEqual(await self.committed(), 20)

    async def test_batches_go_on_with_the_rest_of_one_that_was_begun_in_between(self) -> None:
        """The body of the loop takes one message; the rest of its batch is the loop's next batch."""
        tree = await self.tree()
        self.logs[1].data.clear()

        def work() -> list[tuple[int, int]]:
            with self.group(tree, decode_messages=10) as consumer:
                (stream,) = consumer.create_message_streams("topic1", 1)
                seen = []
                for batch in islice(stream.batches(), 3):
                    seen.append((batch.position, len(batch.messages)))
                    if len(seen) == 1:
                        self.assertEqual(stream.get().id, ENTRY * 10)
                return seen

        self.assertEqual(await self.on_thread(work), [(0, 10), (ENTRY * 11, 9), (ENTRY * 20, 10)])
        self.assertEqual(await self.committed(), 20)

    async def test_messages_count_when_the_application_names_them(self) -> None:
        """With commit="handled" nothing else does."""
        tree = await self.tree()

        def work() -> None:
            with self.group(tree, commit="handled") as consumer:
                (stream,) = consumer.create_message_streams("topic1", 1)
                assert isinstance(stream, BlockingGroupStream)
                messages = list(islice(stream, 50))
                stream.handled(messages[4])

        await self.on_thread(work)
        self.assertEqual(await self.committed(), 5)

    async def test_a_rebalance_drops_messages_between_the_threads(self) -> None:
        """The rest of the batch at hand is dropped as well: the new member delivers them."""
        first, second = await self.tree(), await self.tree()

        def work() -> tuple[list[bytes | None], list[bytes | None]]:
            with self.group(first, decode_messages=20, consumer_name="a") as one:
                (stream,) = one.create_message_streams("topic1", 1)
                mine = [stream.get(60.0).payload for _ in range(5)]
                with self.group(second, consumer_name="b") as two:
                    (other,) = two.create_message_streams("topic1", 1)
                    theirs = [other.get(60.0).payload for _ in range(100)]
                    mine += [stream.get(60.0).payload for _ in range(96)]
                    return mine, theirs

        mine, theirs = await self.on_thread(work)
        every = self.logs[0].payloads() + self.logs[1].payloads()
        self.assertEqual(sorted({*mine, *theirs}), sorted(every))
        self.assertLessEqual(len(mine) + len(theirs), 201)

    async def test_a_batch_that_is_sought_again_does_not_count(self) -> None:
        """The application could not handle it, and asks for it once more."""
        tree = await self.tree()
        self.logs[1].data.clear()

        def work() -> tuple[int, int]:
            with self.group(tree, decode_messages=10) as consumer:
                (stream,) = consumer.create_message_streams("topic1", 1)
                batches = stream.batches(60.0)
                first = next(batches)
                deadline = time.monotonic() + 60.0
                stream.seek(first.partition, first.position)
                while not any(each.batch.position == first.position for each in stream._thread_queue._items):
                    self.assertLess(time.monotonic(), deadline)
                    time.sleep(0.01)
                again = next(batches)
                consumer.commit()
                return first.position, again.position

        self.assertEqual(await self.on_thread(work), (0, 0))
        self.assertEqual(await self.committed(), 0)

    async def test_reading_goes_on_after_a_failure(self) -> None:
        """A stream that failed over damage reads the partitions that it is given next."""
        tree = await self.tree()
        self.logs[0].data[ENTRY * 3 + 10] ^= 1
        self.logs[1].data.clear()

        def work() -> list[bytes | None]:
            with self.group(tree, corrupt_retries=0, consumer_name="a") as consumer:
                (stream,) = consumer.create_message_streams("topic1", 1)
                got = [stream.get(60.0).payload for _ in range(3)]
                self.assertRaises(CorruptMessage, stream.get, 60.0)
                self.logs[0].data[ENTRY * 3 + 10] ^= 1
                second = self.group(tree, consumer_name="b")
                second.create_message_streams("topic1", 1)
                deadline = time.monotonic() + 60.0
                while len(got) < 4 and time.monotonic() < deadline:
                    # It fails, at once, until the group has been shared out again.
                    with contextlib.suppress(CorruptMessage):
                        got.append(stream.get(60.0).payload)
                second.close()
                return got

        got = await self.on_thread(work)
        self.assertEqual(got, [b"0000", b"0001", b"0002", b"0003"])
        await deferLater(cast(Any, reactor), 0)

    async def test_handled_messages_alone_are_committed(self) -> None:
        """Whatever ``commit`` says: the message that failed comes again to the next member."""
        for number, how in enumerate(("taken", "handled")):
            tree = await self.tree()

            def work(tree: InProcessCoordination = tree, how: str = how) -> int:
                handled: list[Message] = []

                def handle(message: Message) -> None:
                    if len(handled) == 30:
                        raise ValueError("broken")
                    handled.append(message)

                with self.group(tree, commit=how) as consumer:
                    (stream,) = consumer.create_message_streams("topic1", 1)
                    with contextlib.suppress(ValueError):
                        stream.handle(handle, retries=0)
                return len(handled)

            self.assertEqual(await self.on_thread(work), 30)
            self.assertEqual(await self.committed(), 30 * (number + 1))
