"""Tests of clients whose leader's machine dies without a word, on three brokers in memory with the default session."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.cluster import MemoryCluster


class SilentLeaderTests(SynchronousTestCase):
    """A topic of several partitions, each of which three brokers store."""

    partitions = 3

    def setUp(self) -> None:
        """Start the brokers, with default settings, and create the topic."""
        self.cluster = MemoryCluster(brokers=3)
        self.cluster.wait(self.cluster.start())
        self.addCleanup(lambda: self.cluster.wait(self.cluster.stop(), 200.0))
        self.admin = self.cluster.admin()
        self.cluster.wait(self.admin.create("t", self.partitions, replicas=3))
        self.cluster.advance(2.0)

    def leader(self) -> MemoryBroker:
        """Return the broker that leads partition 0."""
        (topic,) = self.cluster.wait(self.admin.metadata(["t"])).topics
        leader = next(part.leader for part in topic.partitions if part.partition == 0)
        return next(broker for broker in self.cluster.brokers if broker.settings.id == leader)

    def die(self, broker: MemoryBroker) -> float:
        """Take the power from a broker's machine, so that nothing comes from there; return the time."""
        self.cluster.network.block("client", broker.host)
        broker.kill(power_lost=True)
        return self.cluster.clock.seconds()

    def reader(self, **settings: Any) -> list[bytes | None]:
        """Read the topic from its end on; return the list to which payloads are added."""
        got: list[bytes | None] = []
        (stream,) = self.cluster.consumer(start="earliest", **settings).create_message_streams("t", 1)

        async def read() -> None:
            async for message in stream:
                got.append(message.payload)

        Deferred.fromCoroutine(read()).addErrback(lambda _: None)
        self.cluster.advance(2.0)
        return got

    def check_producer(self, acks: int) -> None:
        """Let a leader die; all that a producer sends is acknowledged within ten seconds, in order."""
        producer = self.cluster.producer(acks=acks)
        for number in range(self.partitions):
            self.cluster.wait(producer.send("t", b"before", partition=number))
        died = self.die(self.leader())
        sent = [
            self.cluster.wait(producer.send("t", b"%d" % number, partition=number % self.partitions))
            for number in range(6)
        ]
        self.assertLess(self.cluster.clock.seconds() - died, 10.0)
        self.assertLess(sent[0].next_position, sent[3].next_position)

    def test_a_producer_that_waits_for_all(self) -> None:
        """It is blocked for less than ten seconds."""
        self.check_producer(-1)

    def test_a_producer_that_waits_for_the_leader(self) -> None:
        """So is it with acks=1."""
        self.check_producer(1)

    def check_reader(self, **settings: Any) -> None:
        """Let a leader die; a reader has the next message of its partition within ten seconds."""
        got = self.reader(**settings)
        died = self.die(self.leader())
        writer = self.cluster.producer()
        self.cluster.wait(writer.send("t", b"x", partition=0))
        while not got and self.cluster.clock.seconds() - died < 40.0:
            self.cluster.advance(0.1)
        self.assertEqual(got, [b"x"])
        self.assertLess(self.cluster.clock.seconds() - died, 10.5)

    def test_a_reader(self) -> None:
        """It goes on about as soon, with the wait of its fetch on top."""
        self.check_reader()

    def test_a_reader_with_fetch_sessions(self) -> None:
        """Its requests do not name the partitions."""
        self.check_reader(session_partitions=0)

    def test_a_reader_that_is_cut_off_from_a_living_leader(self) -> None:
        """Nobody else leads, so it waits, and goes on once it can be reached."""
        got, leader = self.reader(), self.leader()
        self.cluster.network.block("client", leader.host)
        self.cluster.advance(15.0)
        self.assertTrue(leader.running)
        self.cluster.network.heal()
        self.cluster.wait(self.cluster.producer().send("t", b"x", partition=0))
        self.cluster.advance(1.0)
        self.assertEqual(got, [b"x"])
