"""Tests of readers whose position is behind the log of the broker that they ask, which may have led before."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.trial.unittest import SynchronousTestCase

from logd.client.consumer.consumer import Consumer
from logd.client.consumer.stream import MessageStream
from logd.testing.memory.broker import MemoryBroker
from logd.testing.memory.cluster import MemoryCluster


class PositionBehindEndTestCase(SynchronousTestCase):
    """Brokers in memory, and a topic of one partition."""

    brokers = replicas = 3

    def setUp(self) -> None:
        """Start the brokers, create the topic, and store a message."""
        self.cluster = MemoryCluster(brokers=self.brokers)
        self.cluster.wait(self.cluster.start())
        self.addCleanup(lambda: self.cluster.wait(self.cluster.stop(), 200.0))
        admin = self.cluster.admin()
        self.cluster.wait(admin.create("t", 1, replicas=self.replicas))
        self.cluster.advance(2.0)
        (topic,) = self.cluster.wait(admin.metadata(["t"])).topics
        self.leader = self.cluster.brokers[topic.partitions[0].leader]
        self.producer = self.cluster.producer(acks=-1)
        self.end = self.send(b"first")

    def pause(self, broker: MemoryBroker) -> None:
        """Let a broker stand still."""
        assert broker.clock is not None
        broker.clock.pause()

    def resume(self, broker: MemoryBroker) -> None:
        """Let a broker go on, with what it has not read yet."""
        assert broker.clock is not None
        broker.clock.resume()

    def send(self, payload: bytes) -> int:
        """Store a message; return the position behind it."""
        return self.cluster.wait(self.producer.send("t", payload, partition=0)).next_position

    def read(self, position: int, **settings: Any) -> tuple[MessageStream, list[bytes | str | None]]:
        """Read from a position, asking the first leader first; return the stream, and what comes or fails."""
        cluster = self.cluster
        given: dict[str, Any] = {"reactor": cluster.clock, "connect": cluster.connect, "random": lambda: 0.5}
        consumer = Consumer([self.leader.address], **given, **settings)
        self.addCleanup(consumer.close)
        (stream,) = consumer.create_message_streams("t", 1, [0], {0: position})
        got: list[bytes | str | None] = []

        async def read() -> None:
            async for message in stream:
                got.append(message.payload)

        Deferred.fromCoroutine(read()).addErrback(lambda failure: got.append(failure.getErrorMessage()))
        return stream, got


class DeposedLeaderTests(PositionBehindEndTestCase):
    """The leader stands still until another one has led, and goes on without knowing that."""

    def check_goes_on(self, **settings: Any) -> None:
        """Let the former leader answer a reader before it hears of its successor; the reader gets what comes next."""
        self.pause(self.leader)
        stream, got = self.read(self.send(b"second"), **settings)
        self.cluster.advance(0.5)
        self.resume(self.leader)
        self.cluster.advance(5.0)
        self.send(b"third")
        self.cluster.advance(5.0)
        self.assertEqual((got, stream.jumps), ([b"third"], 0))

    def test_a_reader_does_not_go_back(self) -> None:
        """The messages that the former leader lacks are not gone: another broker leads since."""
        self.check_goes_on()

    def test_a_reader_does_not_fail(self) -> None:
        """A reader that may not go on elsewhere has no reason to."""
        self.check_goes_on(on_out_of_range="fail")

    def test_a_reader_in_a_session_does_not_go_back(self) -> None:
        """It is the same for the partitions of a fetch session."""
        self.check_goes_on(session_partitions=0)


class GonePositionTests(PositionBehindEndTestCase):
    """The leader is right: there is nothing at the position. The other broker stores nothing of the topic."""

    brokers, replicas = 2, 1

    def check_goes_elsewhere(self, seconds: float) -> None:
        """Read from a position that is gone; the reader begins anew within some time."""
        stream, got = self.read(self.end + 1000, request_timeout=4.0)
        self.cluster.advance(seconds)
        self.assertEqual((got, stream.jumps), ([b"first"], 1))

    def other(self) -> MemoryBroker:
        """Return the broker that does not lead."""
        (other,) = (broker for broker in self.cluster.brokers if broker is not self.leader)
        return other

    def test_the_other_broker_says_who_leads(self) -> None:
        """It names the broker that has answered."""
        self.check_goes_elsewhere(1.0)

    def test_the_other_broker_is_dead(self) -> None:
        """Nobody else can be asked."""
        self.other().kill()
        self.check_goes_elsewhere(1.0)

    def test_the_other_broker_stands_still(self) -> None:
        """It is waited for as long as for any answer, and no longer."""
        self.pause(self.other())
        self.addCleanup(lambda: self.resume(self.other()))
        self.check_goes_elsewhere(6.0)
