"""Tests of ``handle`` on streams of groups for code that blocks: what is committed, whatever ends the handling."""

from __future__ import annotations

import contextlib
import time
from typing import Any, cast

from twisted.internet import reactor
from twisted.internet.defer import Deferred

from logd.client.blocking.clients import Consumer
from logd.client.blocking.group_stream import BlockingGroupStream
from logd.client.consumer.group_stream import GroupStream
from logd.protocol.message import Message
from logd.testing.inprocess.client import InProcessCoordination
from tests.client.blocking.test_group_stream import ENTRY, BlockingGroupTestCase


class BlockingGroupHandlingTests(BlockingGroupTestCase):
    """Handling in a thread, in a group with one partition that has messages."""

    async def setUp(self) -> None:  # type: ignore[override]  # as in the base
        """Leave the messages of one partition alone."""
        await super().setUp()
        self.logs[1].data.clear()

    async def test_the_message_whose_function_closes_the_stream_counts(self) -> None:
        """Whatever ``commit`` says: else a message that tells a program to end would come again at each start."""
        for number, how in enumerate(("taken", "handled")):
            tree = await self.tree()

            def work(tree: InProcessCoordination = tree, how: str = how) -> list[int]:
                handled: list[int] = []
                with self.group(tree, commit=how, rebalance_delay=0.2) as consumer:
                    (stream,) = consumer.create_message_streams("topic1", 1)

                    def handle(message: Message) -> None:
                        handled.append(message.id // ENTRY)
                        if len(handled) == 5:
                            stream.close()

                    stream.handle(handle)
                return handled

            begin = 5 * number
            self.assertEqual(await self.on_thread(work), list(range(begin, begin + 5)))
            self.assertEqual(await self.committed(), begin + 5)

    async def test_a_message_that_fails_while_its_partition_is_taken_away_comes_again(self) -> None:
        """The application asks for the next one before the positions are committed."""
        first, second = await self.tree(), await self.tree()
        finishing: Deferred[None] = Deferred()

        def work() -> int:
            others: list[Consumer] = []
            with self.group(
                first, consumer_name="a", on_revoked=lambda places: finishing, revoke_timeout=60.0
            ) as consumer:
                (stream,) = consumer.create_message_streams("topic1", 1)
                assert isinstance(stream, BlockingGroupStream)

                def handle(message: Message) -> None:
                    if message.id == 2 * ENTRY:
                        others.append(self.group(second, consumer_name="b"))
                        others[0].create_message_streams("topic1", 1)
                        deadline = time.monotonic() + 60.0
                        while cast(GroupStream, stream._stream).partitions():
                            self.assertLess(time.monotonic(), deadline)
                            time.sleep(0.01)
                        raise ValueError("broken")

                with contextlib.suppress(ValueError):
                    stream.handle(handle, retries=0)
                with contextlib.suppress(TimeoutError):
                    stream.get(0.2)
                cast(Any, reactor).callFromThread(finishing.callback, None)
                try:
                    return stream.get(60.0).id
                finally:
                    others[0].close()

        self.assertEqual(await self.on_thread(work), 2 * ENTRY)
