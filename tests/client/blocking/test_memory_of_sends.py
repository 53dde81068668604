"""Tests of the memory of sends that wait between the threads."""

from __future__ import annotations

from time import sleep

from twisted.internet.threads import deferToThread

from logd.client.blocking.clients import SendResult
from logd.errors import ClientClosed
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.protocol.requests.produce_ack import ProduceAck
from tests.client.blocking.test_clients import BlockingTestCase


class MemoryOfSendsTests(BlockingTestCase):
    """A broker that does not answer, and a producer that may hold 100,000 bytes."""

    async def test_sends_block_by_their_bytes(self) -> None:
        """A thousand sets of a megabyte each would take thirty times the memory that a producer may have by default."""
        self.broker.silent = (ProduceAck,)
        sets = (MessageSet([Message(b"x" * 1000, key=b"k")] * 50), [b"x" * 1000] * 50, b"x" * 50_000)
        for messages in (*sets, Message(b"x" * 50_000)):
            producer = await deferToThread(self.producer, buffer_bytes=100_000)
            results: list[SendResult] = []

            def send_many() -> None:
                for _ in range(50):
                    results.append(producer.send("topic1", messages, partition=0))  # noqa: B023

            sending = deferToThread(send_many)
            await deferToThread(sleep, 0.3)
            self.assertLess(len(results), 10)
            await deferToThread(producer.close, 0.0)
            sending.addErrback(lambda failure: failure.trap(ClientClosed))
            await sending
            for each in results:
                with self.assertRaises(ClientClosed):
                    await deferToThread(each.wait, 20)
