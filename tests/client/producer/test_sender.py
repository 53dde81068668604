"""Tests of a sender with more sets than may be unanswered at a time."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.client.producer import sender as module
from logd.client.producer.sender import BrokerSender
from logd.errors import BrokerUnavailable
from logd.protocol.requests.produce_ack import ProduceAck, ProduceAckResponse, ProducedPart
from tests.client.producers import ProducerTestCase


@define(eq=False)
class StubConnection:
    """A connection that is there."""

    def together(self, send: Any) -> None:
        """Send at once."""
        send()


@define(eq=False)
class StubLink:
    """Keeps the requests, with what is told of their answers."""

    current: StubConnection = field(factory=StubConnection)
    asked: list[tuple[ProduceAck, Any]] = field(factory=list)

    def ask_told(self, connection: StubConnection, request: ProduceAck, timeout: float, told: Any) -> None:
        """Keep a request."""
        self.asked.append((request, told))

    def partitions(self) -> list[list[int]]:
        """Return the partitions of each request."""
        return [[part.partition for part in request.parts] for request, _ in self.asked]


@define(eq=False)
class StubBatch:
    """A set of some bytes."""

    bytes: int = 3

    def encode(self) -> bytes:
        """Return its bytes."""
        return b"set"


@define(eq=False)
class StubQueue:
    """A queue with some batches, and what has become of those that were taken."""

    partition: int
    batches: int = 1
    topic: str = "t"
    wake: Any = None
    ends: list[str] = field(factory=list)

    def take(self) -> tuple[StubBatch, bool] | None:
        """Return a batch, if one is left."""
        if not self.batches:
            return None
        self.batches -= 1
        return StubBatch(), False

    def acknowledged(self, batch: StubBatch, partition: int, first_id: int, next_position: int) -> None:
        """Count an acknowledgement."""
        self.ends.append("stored")

    def refused(self, batch: StubBatch, error: Exception) -> None:
        """Count a refusal; this queue does not send again."""
        self.ends.append(type(error).__name__)


class MostSetsTests(SynchronousTestCase):
    """Three sets may be unanswered."""

    def setUp(self) -> None:
        """Make a sender."""
        self.patch(module, "MOST_SETS", 3)
        self.clock = Clock()
        self.link = StubLink()
        self.sender = BrokerSender(self.clock, self.link, -1, 30.0)  # type: ignore[arg-type]

    def wake(self, *queues: StubQueue) -> None:
        """Wake queues up, and let a turn pass."""
        for queue in queues:
            queue.wake = queue.wake or self.sender.wake
            self.sender.wake(queue)  # type: ignore[arg-type]
        self.clock.advance(0)

    def answer(self, number: int) -> None:
        """Answer the request of that number, and let a turn pass."""
        request, told = self.link.asked[number]
        told(ProduceAckResponse(tuple(ProducedPart("t", part.partition, 0, 0, 0, 9) for part in request.parts)))
        self.clock.advance(0)

    def test_others_wait_for_answers_in_the_order_of_their_waking(self) -> None:
        """Each request has as many sets as there is room for."""
        queues = [StubQueue(number) for number in range(8)]
        self.wake(*queues[:2])
        self.wake(*queues[2:])
        self.assertEqual(self.link.partitions(), [[0, 1], [2]])
        self.answer(0)
        self.assertEqual(self.link.partitions()[2:], [[3, 4]])
        self.wake(StubQueue(8))
        self.answer(1)
        self.answer(2)
        self.assertEqual(self.link.partitions()[3:], [[5], [6, 7]])
        self.answer(3)
        self.answer(4)
        self.assertEqual(self.link.partitions()[5:], [[8]])
        self.assertTrue(all(queue.ends == ["stored"] for queue in queues))

    def test_a_lost_request_makes_room(self) -> None:
        """Whatever becomes of its own sets."""
        queues = [StubQueue(number) for number in range(5)]
        self.wake(*queues)
        self.link.asked[0][1](BrokerUnavailable("no answer"))
        self.clock.advance(0)
        self.assertEqual(self.link.partitions(), [[0, 1, 2], [3, 4]])
        self.assertEqual(queues[0].ends, ["BrokerUnavailable"])

    def test_what_waits_is_not_sent_once_another_broker_leads(self) -> None:
        """The new leader's sender sends it; from here it could overtake or be refused."""
        queues = [StubQueue(number) for number in range(5)]
        self.wake(*queues)
        queues[3].wake = BrokerSender(self.clock, StubLink(), -1, 30.0).wake  # type: ignore[arg-type]
        self.answer(0)
        self.assertEqual(self.link.partitions(), [[0, 1, 2], [4]])
        self.assertEqual(queues[3].batches, 1)


class GatheringTests(ProducerTestCase):
    """A producer of more partitions than sets that may be unanswered."""

    def test_partitions_that_wait_gather_messages(self) -> None:
        """They leave in one set once there is room, and all arrive in order."""
        self.patch(module, "MOST_SETS", 2)
        self.broker.add("many", 6)
        producer = self.producer()
        self.result(producer.send("many", b"first", partition=0))
        sending = []
        for turn in range(4):
            sending += [producer.send("many", b"%d" % turn, partition=number) for number in range(6)]
            self.clock.advance(0)
        self.run_for(1.0)
        for each in sending:
            self.successResultOf(each)
        self.assertEqual(sum(self.sets()), 25)
        self.assertLess(len(self.sets()), 16)
        for log in self.broker.logs["many"].values():
            payloads = [payload for payload in log.payloads() if payload != b"first"]
            self.assertEqual(payloads, [b"0", b"1", b"2", b"3"])
