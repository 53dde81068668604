"""Brokers that are killed under the real clients: acknowledged messages stay, and so do those that a consumer has seen.

LOGD_TEST_ROUNDS says how often, three times unless it is set: ``LOGD_TEST_ROUNDS=50 python -m twisted.trial
tests.integration.clients.test_kills_clients``. Files are checked without logd's code, also between kill and start.
"""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from twisted.internet import reactor
from twisted.internet.defer import gatherResults
from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread
from twisted.logger import Logger

from logd.client.consumer.consumer import Consumer
from logd.client.producer.pending_send import Sent
from logd.client.producer.producer import Producer
from logd.protocol.message import Message
from logd.protocol.message_set import MessageSet
from logd.testing.processes.broker import BrokerProcess
from tests.integration.background import BackgroundTestCase
from tests.integration.broker.segments import check_partition, partition_bytes

ROUNDS = int(os.environ.get("LOGD_TEST_ROUNDS", "3"))
PARTITIONS = 3
PRODUCERS = 3
#: A segment rolls every few hundred messages, and checkpoints are written at any moment.
OPTIONS = ("--set", "segment.bytes=100000", "--set", "checkpoint.ms=50", "--set", f"topics.partitions={PARTITIONS}")
CLOCK: Any = reactor


class KillTests(BackgroundTestCase):
    """SIGKILL of the broker at any moment."""

    timeout = 240 + 10 * ROUNDS

    def setUp(self) -> None:
        """Start a broker; nothing is acknowledged or seen yet."""
        self.random = Random()
        self.data = Path(os.path.abspath(self.mktemp()))
        self.broker = BrokerProcess(str(self.data), OPTIONS)
        self.broker.start()
        self.addCleanup(self.broker.kill)
        self.acknowledged: list[dict[int, bytes]] = [{} for _ in range(PARTITIONS)]
        self.seen: list[dict[int, bytes | None]] = [{} for _ in range(PARTITIONS)]
        self.seen_end = [0] * PARTITIONS
        self.over = False

    async def test_acknowledged_and_seen_messages_stay_at_their_ids(self) -> None:
        """Producers and a consumer go on through every kill; the files are compared at each, and sound at the end."""
        clients: dict[str, Any] = {"reactor": reactor, "retry_delay": 0.02, "retry_delay_limit": 0.1}
        producers = [Producer(self.broker.address, batch_messages=20, **clients) for _ in range(PRODUCERS)]
        consumer = Consumer(self.broker.address, **clients)
        self.addCleanup(consumer.close)
        for producer in producers:
            self.addCleanup(producer.close)
        producing = [self.go_on(self.produce(b"%d" % n, producer)) for n, producer in enumerate(producers)]
        await self.until(lambda: self.count() > 0)
        consuming = self.go_on(self.consume(consumer))
        for number in range(ROUNDS):
            await self.until(partial(self.went_on, self.count() + 200, sum(self.seen_end)))
            await deferLater(CLOCK, self.random.random() * 0.2)
            self.assertEqual(await deferToThread(self.broker.kill), -9)
            self.check_files(f"killed {number}")
            await deferToThread(self.broker.start)
            self.check_files(f"started {number}")
        self.over = True
        await gatherResults(producing)
        ends = [max(at + len(data) for at, data in sets.items()) for sets in self.acknowledged]
        await self.until(lambda: all(seen >= end for seen, end in zip(self.seen_end, ends, strict=True)))
        await consumer.close()
        await consuming
        self.assertEqual(self.failures, [])
        self.check_files("at the end")
        entries = sum(check_partition(self.folder(partition)) for partition in range(PARTITIONS))
        sets = self.count()
        Logger().info("{r} kills, {s} sets acknowledged, {e} entries in the end", r=ROUNDS, s=sets, e=entries)
        for partition, seen in enumerate(self.seen):
            self.assertEqual(min(seen), 0, partition)

    def went_on(self, count: int, seen: int) -> bool:
        """Return True when more than ``count`` sets were acknowledged and more than ``seen`` positions passed."""
        return self.count() > count and sum(self.seen_end) > seen

    def count(self) -> int:
        """Return the number of acknowledged sets."""
        return sum(map(len, self.acknowledged))

    def folder(self, partition: int) -> Path:
        """Return a partition's folder."""
        return self.data / f"t-{partition}"

    async def produce(self, name: bytes, producer: Producer) -> None:
        """Send sets of all kinds, some dozen at a time; note the bytes of each that is acknowledged."""
        random = Random(self.random.random())
        serial = 0

        def stored(sent: Sent, expected: bytes) -> None:
            self.acknowledged[sent.partition][sent.first_id] = expected

        while not self.over:
            sending = []
            for _ in range(random.randint(1, 30)):
                serial += 1
                payload = b"%s %d " % (name, serial) + random.randbytes(random.randint(0, 500))
                more: dict[str, Any] = random.choice(({}, {}, {"timestamp": serial}, {"key": b"k%d" % serial}))
                # A set that is compressed is one wrapper, and goes as it is.
                codec = random.choice(("none", "none", "none", "zstd"))
                sets = MessageSet([Message(payload, **more)] * random.choice((1, 3)), codec)
                sent = producer.send("t", sets, partition=random.randrange(PARTITIONS))
                sending.append(sent.addCallback(stored, sets.encode()))
            await gatherResults(sending)

    async def consume(self, consumer: Consumer) -> None:
        """Note every message that arrives, until the consumer is closed."""
        (stream,) = consumer.create_message_streams("t", 1)
        async for message in stream:
            seen = self.seen[message.partition]
            if seen.setdefault(message.id, message.payload) != message.payload:
                self.fail(f"message {message.id} of partition {message.partition} is not what it was")
            self.seen_end[message.partition] = max(self.seen_end[message.partition], message.next_position)

    def check_files(self, when: str) -> None:
        """Compare the files with the notes so far. A broker that was killed may leave a part of an entry."""
        for partition in range(PARTITIONS):
            first, content = partition_bytes(self.folder(partition))
            self.assertEqual(first, 0, when)
            for at, expected in self.acknowledged[partition].items():
                if content[at : at + len(expected)] != expected:
                    self.fail(f"{when}: what was acknowledged at {at} of partition {partition} is not there")
            self.assertLessEqual(self.seen_end[partition], len(content), when)
