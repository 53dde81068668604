"""Tests of many sends: bounds on those of one message each, and on unanswered sets."""

from __future__ import annotations

from typing import Any

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.client.producer import sender as module
from logd.client.producer import unfinished
from logd.client.producer.sender import BrokerSender
from logd.errors import BrokerUnavailable, ClientClosed
from logd.protocol.requests.legacy_requests import Produce
from logd.protocol.requests.produce_ack import ProduceAck, ProduceAckResponse, ProducedPart
from tests.client.producers import ProducerTestCase


class ManySendsTests(ProducerTestCase):
    """Four sends are as many as there is room for."""

    def setUp(self) -> None:
        """Set the bound, and have a producer that knows its topic."""
        super().setUp()
        self.patch(unfinished, "MOST_SENDS", 4)
        self.patch(unfinished, "SENDS_OF_PARTITION", 3)
        self.patch(unfinished, "ENOUGH_SHARE", 3 / 4)

    def known(self, **settings: Any) -> Any:
        """Return a producer that has sent to the topic."""
        producer = self.producer(**settings)
        sending = producer.send("t", b"first")
        producer.flush()
        self.result(sending)
        return producer

    def cancel(self, sending: Deferred[Any]) -> None:
        """Cancel a send, or another wait."""
        sending.cancel()
        self.failureResultOf(sending, CancelledError)
        self.clock.advance(0)

    def test_there_is_no_room_until_sends_are_answered(self) -> None:
        """``has_room`` and ``ready`` agree, whatever becomes of the sends; those that do not ask are taken."""
        for settings in ({}, {"linger": 600.0}, {"batch_messages": 1}, {"compression": "gzip"}):
            producer = self.known(**settings)
            sending = []
            for number in range(6):
                self.assertEqual(producer.has_room, number < 4)
                self.assertEqual(producer.ready().called, number < 4)
                sending.append(producer.send("t", b"%d" % number))
            waiting = producer.ready()
            self.run_for(0.3)
            self.successResultOf(waiting)
            self.assertTrue(producer.has_room)
            for each in sending:
                self.successResultOf(each)

    def test_a_cancelled_flush_leaves_nothing_behind(self) -> None:
        """Each names all that is unfinished: a caller that flushes with a timeout would fill the memory."""
        producer = self.known(linger=600.0)
        producer.send("t", b"waits")
        flushes = [producer.flush() for _ in range(10)]
        for each in flushes[1:]:
            self.cancel(each)
        self.assertEqual(len(producer._unfinished._flushes), 1)
        self.run_for(0.3)
        self.successResultOf(flushes[0])

    def test_a_cancelled_wait_fails(self) -> None:
        """Its caller would go on as if there were room, though it was told to end."""
        producer = self.known(linger=600.0)
        for number in range(4):
            producer.send("t", b"%d" % number)
        waiting = producer.ready()
        waiting.cancel()
        self.failureResultOf(waiting, CancelledError)

    def test_a_caller_that_waits_goes_on_with_room_for_several(self) -> None:
        """Else it would wait and be woken for each message where each is a request of its own."""
        producer = self.known(linger=600.0)
        self.broker.lose_all()
        sending = [producer.send("t", b"%d" % number) for number in range(4)]
        waiting = producer.ready()
        self.cancel(sending[0])
        self.assertTrue(producer.has_room)
        self.assertNoResult(waiting)
        self.successResultOf(producer.ready())
        self.cancel(sending[1])
        self.successResultOf(waiting)

    def test_cancelled_and_failed_sends_make_room(self) -> None:
        """Those that have not left are taken back; all of them end when the producer is closed."""
        producer = self.known(linger=600.0)
        sending = [producer.send("t", b"%d" % number) for number in range(4)]
        self.assertFalse(producer.has_room)
        self.cancel(sending[1])
        self.assertTrue(producer.has_room)
        self.broker.silent = (ProduceAck,)
        waiting = [producer.send("t", b"more") for _ in range(3)]
        self.assertFalse(producer.has_room)
        producer.close(0.1)
        self.run_for(0.3)
        for each in (sending[0], *sending[2:], *waiting):
            self.failureResultOf(each, ClientClosed)
        self.assertEqual(producer._unfinished.sends, 0)

    def test_sends_to_many_partitions_have_more_room(self) -> None:
        """As many as make sets of several messages for each of them."""
        self.broker.add("many", 3)
        producer = self.known(linger=600.0)
        sending = producer.send("many", b"first", partition=0)
        producer.flush()
        self.result(sending)
        for number in range(9):
            self.assertTrue(producer.has_room)
            producer.send("many", b"%d" % number, partition=number % 3)
        self.assertTrue(producer.has_room)  # three partitions, and that of the topic before
        for number in range(3):
            producer.send("many", b"%d" % number, partition=number)
        self.assertFalse(producer.has_room)
        waiting = producer.ready()
        self.assertNoResult(waiting)
        self.run_for(0.3)
        self.successResultOf(waiting)

    def test_messages_that_are_published_are_not_counted(self) -> None:
        """Nothing but their bytes is held."""
        producer = self.known(linger=600.0)
        for number in range(20):
            self.assertTrue(producer.publish("t", b"%d" % number))
        self.assertTrue(producer.has_room)

    def test_a_publisher_is_told_of_too_many_sends(self) -> None:
        """``publish`` and ``has_room`` agree, whichever way a message takes; what lingers waits for ``ready``."""
        self.broker.add("u")
        ways: tuple[dict[str, Any], ...] = ({}, {"key": b"k"}, {"timestamp": 5}, {"partition": 0}, {"topic": "u"})
        for way in ways:
            for settings in ({"linger": 600.0}, {"acks": 0, "linger": 600.0}):
                message: dict[str, Any] = {"topic": "t", "payload": b"message", **way}
                producer = self.known(**settings)
                producer.publish(**message)
                self.result(producer.flush())
                self.assertTrue(producer.publish(**message))
                sending = []
                while producer.has_room:
                    sending.append(producer.send("t", b"sent"))
                before = len(self.broker.requests)
                for _ in range(3):
                    self.assertFalse(producer.publish(**message), (way, settings))
                    self.assertFalse(producer.has_room)
                self.run_for(0.3)
                self.assertEqual(len(self.broker.requests), before)
                waiting = producer.ready()
                self.assertNoResult(waiting)
                self.run_for(0.3)
                self.successResultOf(waiting)
                self.assertTrue(producer.publish(**message))
                self.assertTrue(producer.has_room)
                for each in sending:
                    self.successResultOf(each)
                producer.close()


@define(eq=False)
class StubConnection:
    """A connection that is there."""

    writable: bool = True
    writing: Deferred[None] = field(factory=Deferred)
    sent: list[Produce] = field(factory=list)
    #: The calls that wait for the end of one read, while there is one.
    reading: list[Any] | None = None

    def together(self, send: Any) -> None:
        """Send at once."""
        send()

    def after_answers(self, call: Any) -> None:
        """Keep it during a read, else call it at once."""
        if self.reading is None:
            call()
        else:
            self.reading.append(call)

    def when_writable(self) -> Deferred[None]:
        """Return what fires once there is room again."""
        return self.writing

    def send_only(self, request: Produce) -> None:
        """Keep a request of acks=0."""
        self.sent.append(request)


@define(eq=False)
class StubLink:
    """Keeps the requests, with what is told of their answers."""

    current: StubConnection | None = field(factory=StubConnection)
    connecting: Deferred[StubConnection] = field(factory=Deferred)
    asked: list[tuple[ProduceAck, Any]] = field(factory=list)

    def get(self) -> Deferred[StubConnection]:
        """Return what fires with the next connection."""
        return self.connecting

    def ask_told(self, connection: StubConnection, request: ProduceAck, timeout: float, told: Any) -> None:
        """Keep a request."""
        self.asked.append((request, told))

    def partitions(self) -> list[list[int]]:
        """Return the partitions of each request."""
        return [[part.partition for part in request.parts] for request, _ in self.asked]


@define(eq=False)
class StubBatch:
    """A set of some bytes."""

    def encode(self) -> bytes:
        """Return its bytes."""
        return b"set"

    @property
    def bytes(self) -> int:
        """Their number."""
        return 3


@define(eq=False)
class StubQueue:
    """A queue with some batches, and what has become of those that were taken."""

    partition: int
    batches: int = 1
    topic: str = "t"
    wake: Any = None
    next_bytes: int = 0
    take_cancelled_out: Any = lambda: None  # no send is cancelled
    ends: list[str] = field(factory=list)

    def take(self) -> tuple[StubBatch, bool] | None:
        """Return a batch, if one is left."""
        self.batches -= 1
        return (StubBatch(), False) if self.batches >= 0 else None

    def acknowledged(self, batch: StubBatch, partition: int, first_id: int, next_position: int) -> None:
        """Count an acknowledgement."""
        self.ends.append("stored")

    def refused(self, batch: StubBatch, error: Exception) -> None:
        """Count a refusal; this queue does not send again."""
        self.ends.append(type(error).__name__)

    def unreachable(self, error: Exception) -> None:
        """Note that the leader is looked for again."""
        self.ends.append("unreachable")


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

    def test_answers_of_one_read_make_room_for_one_request(self) -> None:
        """However many answers there are, the queues are looked at once, and nothing is sent before."""
        connection = self.link.current = StubConnection()
        queues = [StubQueue(number) for number in range(6)]
        for queue in queues:
            self.wake(queue)
        self.assertEqual(self.link.partitions(), [[0], [1], [2]])
        connection.reading = []
        for number in range(3):
            self.answer(number)
        (drain,) = connection.reading
        self.assertEqual(len(self.link.asked), 3)
        connection.reading = None
        drain()
        self.assertEqual(self.link.partitions()[3:], [[3, 4, 5]])
        self.answer(3)
        self.wake(StubQueue(6))
        self.assertEqual(self.link.partitions()[4:], [[6]])

    def test_each_queue_has_its_turn(self) -> None:
        """Those that always have another set keep none of the others waiting."""
        self.wake(*[StubQueue(number, batches=9) for number in range(5)])
        for number in range(4):
            self.answer(number)
        self.assertEqual(self.link.partitions(), [[0, 1, 2], [3, 4, 0], [1, 2, 3], [4, 0, 1], [2, 3, 4]])

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

    def test_what_waits_unacknowledged_is_not_sent_once_another_broker_leads(self) -> None:
        """With acks=0 nothing would tell that the former leader has refused it."""
        connection = self.link.current = StubConnection(writable=False)
        self.sender = BrokerSender(self.clock, self.link, 0, 30.0)  # type: ignore[arg-type]
        queues = [StubQueue(number) for number in range(2)]
        self.wake(*queues)
        queues[0].wake = BrokerSender(self.clock, StubLink(), 0, 30.0).wake  # type: ignore[arg-type]
        connection.writable = True
        connection.writing.callback(None)
        self.assertEqual([request.partition for request in connection.sent], [1])
        self.assertEqual(queues[0].batches, 1)

    def test_a_broker_that_cannot_be_reached(self) -> None:
        """Queues that have another leader by now do not look for one again."""
        self.link.current = None
        queues = [StubQueue(number) for number in range(2)]
        self.wake(*queues)
        queues[0].wake = BrokerSender(self.clock, StubLink(), -1, 30.0).wake  # type: ignore[arg-type]
        self.link.connecting.errback(BrokerUnavailable("no connection"))
        self.assertEqual([queue.ends for queue in queues], [[], ["unreachable"]])


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

    def test_a_stream_of_messages_reaches_all_partitions(self) -> None:
        """Those whose turn comes first have another set each time that there is room."""
        self.patch(module, "MOST_SETS", 2)
        self.broker.add("many", 6)
        producer = self.producer()
        self.result(producer.send("many", b"first", partition=0))
        for turn in range(40):
            for number in range(6):
                self.assertTrue(producer.publish("many", b"%d" % turn, partition=number))
            self.clock.advance(0.01)
        self.assertGreater(min(len(log.payloads()) for log in self.broker.logs["many"].values()), 30)
