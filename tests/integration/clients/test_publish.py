"""Published messages at a real broker that is killed, and whose topic changes its message.format meanwhile."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from twisted.internet import reactor
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.internet.utils import getProcessOutputAndValue

from logd.client.admin.admin import Admin
from logd.client.consumer.consumer import Consumer
from logd.client.producer.producer import Producer
from logd.testing.processes.broker import BrokerProcess
from tests.integration.background import BackgroundTestCase

CLOCK: Any = reactor
CLIENTS: dict[str, Any] = {"reactor": reactor, "retry_delay": 0.02, "retry_delay_limit": 0.1}
KILLS = 3
PARTITIONS = 3
KEYS = [b"key%d" % number for number in range(7)]


class PublishTests(BackgroundTestCase):
    """One broker, one topic, one producer of batches."""

    timeout = 240

    def setUp(self) -> None:
        """Start a broker; nothing is published yet."""
        self.broker = BrokerProcess(str(Path(os.path.abspath(self.mktemp()))))
        self.broker.start()
        self.addCleanup(self.broker.kill)
        self.reports: list[tuple[str, int, Exception]] = []
        self.published = 0
        self.over = False

    async def start(self) -> Producer:
        """Make the topic and a producer."""
        admin = Admin(self.broker.address, **CLIENTS)
        self.addCleanup(admin.close)
        await admin.create("t", PARTITIONS)
        producer = Producer(
            self.broker.address, format="batch", on_error=lambda *report: self.reports.append(report),
            batch_messages=50, buffer_bytes=100_000, **CLIENTS,
        )  # fmt: skip
        self.addCleanup(producer.close)
        return producer

    async def publish(self, producer: Producer, keyed: bool) -> None:
        """Publish numbers until the end of the test, then flush."""
        while not self.over:
            for _ in range(10):
                number = self.published
                self.published += 1
                payload = b"%d" % number
                if keyed:
                    room = producer.publish("t", payload, KEYS[number % len(KEYS)])
                else:
                    room = producer.publish("t", payload, partition=number % PARTITIONS)
                if not room:
                    await producer.ready()
            await deferLater(CLOCK, 0)
        await producer.flush()

    async def stored(self) -> dict[object, list[int]]:
        """Return the numbers in the topic, in order, by key or by partition."""
        consumer = Consumer(self.broker.address, **CLIENTS)
        self.addCleanup(consumer.close)
        (stream,) = consumer.create_message_streams("t", 1)
        found: dict[object, list[int]] = {}
        missing = set(range(self.published))
        async for message in stream:
            number = int(message.payload or b"")
            where = message.partition if message.key is None else message.key
            found.setdefault(where, []).append(number)
            missing.discard(number)
            if not missing:
                break
        return found

    async def until_more(self, count: int) -> None:
        """Wait until ``count`` more messages were published."""
        wanted = self.published + count
        await self.until(lambda: self.published >= wanted)

    async def test_a_flush_means_that_all_are_stored_through_kills(self) -> None:
        """Each message is there at least once, and the first occurrences of each key's messages are in order."""
        producer = await self.start()
        publishing = self.go_on(self.publish(producer, keyed=True))
        for _ in range(KILLS):
            await self.until_more(1000)
            self.assertEqual(await deferToThread(self.broker.kill), -9)
            await deferToThread(self.broker.start)
        await self.until_more(1000)
        self.over = True
        await publishing
        self.assertEqual((self.failures, self.reports), ([], []))
        await self.until(lambda: not producer.buffered_bytes)  # given back in the turn that ends the flush
        found = await self.stored()
        self.assertEqual(set(found), set(KEYS))
        for index, key in enumerate(KEYS):
            self.assertEqual(list(dict.fromkeys(found[key])), list(range(index, self.published, len(KEYS))), key)

    async def test_a_topic_is_set_for_readers_of_0_7_while_messages_are_published(self) -> None:
        """Each message is there once, in order: what was refused as a batch is encoded anew."""
        producer = await self.start()
        publishing = self.go_on(self.publish(producer, keyed=False))
        await self.until(lambda: 3 in self.magics())
        command = ["-m", "logd", "topics", "set", "t", "message.format=0.7", "--broker", self.broker.address]
        _, err, code = await getProcessOutputAndValue(sys.executable, command, env=dict(os.environ))
        self.assertEqual(code, 0, err)
        await self.until_more(3000)
        self.over = True
        await publishing
        self.assertEqual((self.failures, self.reports), ([], []))
        await self.until(lambda: not producer.buffered_bytes)  # given back in the turn that ends the flush
        found = await self.stored()
        for partition in range(PARTITIONS):
            self.assertEqual(found[partition], list(range(partition, self.published, PARTITIONS)))
        magics = self.magics()
        self.assertLessEqual({0, 3}, magics, "the change came before the first batch, or after the last")

    def magics(self) -> set[int]:
        """Return the magics in the files of the topic."""
        found: set[int] = set()
        for file in Path(self.broker.data).glob("t-*/*.log"):
            data, at = file.read_bytes(), 0
            while at + 5 <= len(data):
                found.add(data[at + 4])
                at += 4 + int.from_bytes(data[at : at + 4], "big")
        return found
