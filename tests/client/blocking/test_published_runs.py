"""Tests of the order of what several threads publish and send by one blocking producer."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from logd.client.blocking.clients import Producer
from logd.client.blocking.publish_queue import PublishedRun
from tests.client.blocking.test_clients import BlockingTestCase


def hold_up(producer: Producer, kind: type) -> threading.Event:
    """Let the first thread that hands over an item of this kind stand still before it does; fire when it stands."""
    standing = threading.Event()
    put = producer._put

    def put_later(item: Any) -> None:
        if isinstance(item, kind) and not standing.is_set():
            standing.set()
            time.sleep(0.3)
        put(item)

    producer._put = put_later  # type: ignore[method-assign]
    return standing


class PublishedRunTests(BlockingTestCase):
    """A thread stands still where it hands something to the reactor's thread."""

    async def check(
        self, kind: type, first: Callable[[Producer], object], second: Callable[[Producer], object], stored: list[bytes]
    ) -> None:
        """Do ``first`` on a thread, and ``second`` on another one meanwhile; compare what is stored after a flush."""

        def work() -> list[bytes | None]:
            with self.producer() as producer:
                standing = hold_up(producer, kind)
                other = threading.Thread(target=first, args=(producer,))
                other.start()
                standing.wait(10)
                second(producer)
                producer.flush(20)
                found = self.logs[0].payloads()
                other.join()
                return found

        self.assertEqual(await self.on_thread(work), stored)

    async def test_a_flush_waits_for_a_message_that_joined_the_run_of_another_thread(self) -> None:
        """The message was published before the flush, by the same thread."""
        await self.check(
            PublishedRun,
            lambda producer: producer.publish("topic1", b"1", partition=0),
            lambda producer: producer.publish("topic1", b"2", partition=0),
            [b"1", b"2"],
        )

    async def test_a_message_does_not_pass_what_its_thread_sent_before(self) -> None:
        """Another thread begins a run of messages while the send is handed over; the message joins that run."""
        published = threading.Event()

        def send_and_publish(producer: Producer) -> None:
            producer.send("topic1", b"1", partition=0)
            producer.publish("topic1", b"2", partition=0)
            published.set()

        def publish(producer: Producer) -> None:
            producer._reactor.callFromThread(time.sleep, 0.6)  # it takes no run meanwhile
            producer.publish("topic1", b"other", partition=1)
            published.wait(10)

        await self.check(tuple, send_and_publish, publish, [b"1", b"2"])
