"""Tests of a topic that is deleted and made again under its consumers, with real brokers and logs on a clock."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logd.client.consumer.stream import MessageStream
from logd.testing import MemoryCluster


class RemadeTopicTests(SynchronousTestCase):
    """Two brokers, a consumer without a group and one of a group."""

    def setUp(self) -> None:
        """Let both consumers read the topic."""
        self.cluster = cluster = MemoryCluster(brokers=2)
        cluster.wait(cluster.start())
        self.addCleanup(lambda: cluster.wait(cluster.stop()))
        self.admin = cluster.admin()
        cluster.wait(self.admin.create("t", 2))
        self.fill("old", 20)
        self.got: list[list[bytes]] = []
        self.reading: list[Deferred[None]] = []
        self.streams = [
            *cluster.consumer().create_message_streams("t", 1),
            *cluster.consumer(group="g", commit_interval=1.0).create_message_streams("t", 1),
        ]
        for stream in self.streams:
            got: list[bytes] = []
            self.got.append(got)
            self.reading.append(Deferred.fromCoroutine(self.read(stream, got)))
        cluster.advance(5.0)

    async def read(self, stream: MessageStream, got: list[bytes]) -> None:
        """Record every message of a stream."""
        async for message in stream:
            got.append(message.payload or b"")

    def fill(self, name: str, count: int, more: int = 0) -> list[bytes]:
        """Send `count` messages of a name, a number and `more` further bytes; return their payloads."""
        payloads = [b"%s-%04d" % (name.encode(), number) + b"x" * more for number in range(count)]
        producer = self.cluster.producer()
        for payload in payloads:
            self.cluster.wait(producer.send("t", payload, key=payload))
        return payloads

    def test_consumers_get_every_message_of_the_new_topic(self) -> None:
        """The new topic may be longer than the former one or shorter, and its entries lie elsewhere."""
        for name, count, more in (("longer", 60, 7), ("shorter", 5, 3)):
            self.cluster.wait(self.admin.delete("t"))
            self.cluster.wait(self.admin.create("t", 2))
            expected = self.fill(name, count, more)
            self.cluster.advance(10.0)
            for got, reading in zip(self.got, self.reading, strict=True):
                self.assertNoResult(reading)
                self.assertEqual(sorted(each for each in got if each.startswith(name.encode())), sorted(expected))
        self.assertGreater(self.streams[0].jumps, 0)
