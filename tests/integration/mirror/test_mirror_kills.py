"""Mirrors that are killed, and clusters that are restarted, while messages flow."""

from __future__ import annotations

import os
from random import Random

from twisted.internet.task import deferLater
from twisted.internet.threads import deferToThread

from logd.client.producer.pending_send import Sent
from logd.client.producer.producer import Producer
from logd.protocol.message import Message
from tests.integration.clusters import SESSION_MS
from tests.integration.mirror.processes import CLOCK, MirrorTestCase

#: Rounds of harm; CONTRIBUTING.md has the variable.
ROUNDS = int(os.environ.get("LOGD_TEST_ROUNDS", "3"))
PARTITIONS = 2


class KillTests(MirrorTestCase):
    """Everything that the source has acknowledged reaches the target, whatever is killed."""

    session_ms = SESSION_MS

    async def test_nothing_is_lost_and_order_holds(self) -> None:
        """Mirrors by SIGKILL at any moment, each cluster by SIGKILL and at once again."""
        random = Random(0)
        await self.admin(self.source).create("web", PARTITIONS)
        self.sent: dict[int, list[int]] = {number: [] for number in range(PARTITIONS)}
        self.running = True
        producer = self.producer(self.source, format="batch")
        for partition in range(PARTITIONS):
            self.go_on(self._produce(producer, partition))
        mirrors = [self.mirror(), self.mirror()]
        await self.until_mirrored(self.admin(self.target), "web")
        found = self.copied("web")
        for number in range(ROUNDS):
            victim = random.choice(["mirror", "mirror", "source", "target"]) if number else "mirror"
            await deferLater(CLOCK, random.uniform(0.1, 2.0))
            if victim == "mirror":
                await deferToThread(mirrors.pop(0).kill)
                mirrors.append(self.mirror())
            else:
                broker = self.source if victim == "source" else self.target
                await deferToThread(broker.kill)
                await deferToThread(broker.start)
        self.running = False
        await producer.flush()
        await self.until(lambda: all(self._is_complete(found.get(each, []), each) for each in range(PARTITIONS)))
        for partition in range(PARTITIONS):
            numbers = [int(m.payload or b"") for m in found[partition]]
            first = list(dict.fromkeys(numbers))
            self.assertEqual(first, sorted(first), "first copies are in order")
            repeats = len(numbers) - len(first)
            self.assertLess(repeats, len(first), f"{repeats} repeats")

    async def _produce(self, producer: Producer, partition: int) -> None:
        """Send numbers to a partition, and note those that the source has acknowledged."""
        number = 0
        while self.running:
            numbers = list(range(number, number + 20))
            number += 20
            messages = [Message(b"%d" % each, key=b"%d" % (each % 5)) for each in numbers]
            sent: Sent = await producer.send("web", messages, partition=partition)
            self.sent[sent.partition] += numbers
            await deferLater(CLOCK, 0.01)

    def _is_complete(self, found: list[Message], partition: int) -> bool:
        sent = self.sent[partition]
        return len(found) >= len(sent) and set(sent) <= {int(m.payload or b"") for m in found}
