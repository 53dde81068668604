"""Tests of the histogram of deliveries: what is observed when consumers are given messages."""

from __future__ import annotations

from logd.broker.latency.histograms import MOST_TOPICS, OTHER_TOPICS, Histogram
from logd.broker.latency.metrics import LatencyMetrics
from logd.log.visibility.visible_times import MOST_UNSEEN
from logd.protocol import loops
from logd.protocol.message import Message
from logd.protocol.requests.fetch_wait import FetchPart, FetchWait
from logd.protocol.requests.legacy_requests import Fetch, Produce
from tests.broker.rig import BrokerTestCase


class DeliveriesTests(BrokerTestCase):
    """One topic, and consumers by the native requests and by those of 0.7."""

    def setUp(self) -> None:
        """Create the topic, some time after the epoch."""
        super().setUp()
        self.clock.advance(1000.0)
        self.create("t")
        self.producer, self.consumer = self.connect(), self.connect()

    def send(self, age: float, topic: str = "t") -> bytes:
        """Append a message that is so many seconds old, without a flush; return its bytes."""
        data = loops.encode_set([Message(b"hello", timestamp=self.now_ms() - round(age * 1000))])
        self.producer.send(Produce(topic, 0, data))
        return data

    def now_ms(self) -> int:
        """Return the time of day of the broker."""
        log = self.broker.store.log("t", 0)
        assert log is not None
        return round(log.wall() * 1000)

    def observed(self, topic: str = "t") -> tuple[int, float]:
        """Return the number of observations, and their sum in seconds."""
        found = self.broker.counters.latencies.deliveries.get(topic, Histogram())
        return sum(found.counts), round(found.sum, 3)

    def test_a_waiting_consumer_is_given_a_message(self) -> None:
        """The time counts from the message's own, through the flush."""
        self.consumer.send(FetchWait(60_000, 1, 0, (FetchPart("t", 0, 0, 0, 1000),)))
        self.send(age=2.0)
        self.assertEqual(self.observed(), (0, 0.0))
        self.settle()
        self.assertEqual(len(self.consumer.answers()), 1)
        count, seconds = self.observed()
        self.assertEqual(count, 1)
        self.assertGreaterEqual(seconds, 2.0)
        self.assertLess(seconds, 3.0)

    def test_replays_are_not_counted(self) -> None:
        """A consumer that reads old messages, and not up to the end, says nothing of the way from the producer."""
        size = len(self.send(age=500.0))
        self.settle()
        self.send(age=0.0)
        self.settle()
        self.consumer.send(Fetch("t", 0, 0, size))
        self.settle()
        self.assertEqual(self.observed()[0], 0)
        self.consumer.send(Fetch("t", 0, size, 1000))
        self.settle()
        self.assertEqual(self.observed()[0], 1)

    def test_messages_that_are_not_visible_yet_do_not_count(self) -> None:
        """The newest message of the answer is measured, not one that is still to be flushed."""
        size = len(self.send(age=100.0))
        self.settle()
        self.send(age=0.0)
        self.consumer.send(Fetch("t", 0, 0, size))
        self.assertEqual(len(self.consumer.answers()), 1)
        count, seconds = self.observed()
        self.assertEqual(count, 1)
        self.assertGreaterEqual(seconds, 100.0)

    def test_a_clock_that_is_ahead_makes_no_negative_time(self) -> None:
        """The sum of a histogram may not fall."""
        self.send(age=-50.0)
        self.settle()
        self.consumer.send(Fetch("t", 0, 0, 1000))
        self.settle()
        self.assertEqual(self.observed(), (1, 0.0))

    def test_topics_are_told_apart_up_to_a_number(self) -> None:
        """Those that come later share one name."""
        log = self.broker.store.log("t", 0)
        assert log is not None
        latencies = self.broker.counters.latencies
        log.times.newest_ms = 0
        for number in range(MOST_TOPICS + 5):
            log.topic = f"t{number}"
            latencies.delivered(log)
        log.topic = "t"
        self.assertEqual(len(latencies.deliveries), MOST_TOPICS + 1)
        self.assertEqual(self.observed(OTHER_TOPICS)[0], 5)
        (family,) = (each for each in LatencyMetrics(self.broker).collect() if each.name == "logd_delivery_seconds")
        self.assertEqual({sample.labels["topic"] for sample in family.samples}, {*latencies.deliveries})

    def test_the_times_of_appends_that_wait_are_bounded(self) -> None:
        """The last one stands for those after it."""
        log = self.broker.store.log("t", 0)
        assert log is not None
        for number in range(MOST_UNSEEN + 10):
            log.times.appended(log.end + number, number)
        self.assertEqual(len(log.times), MOST_UNSEEN)
        log.times.visible(log.end + MOST_UNSEEN + 10)
        self.assertEqual((len(log.times), log.times.newest_ms), (0, MOST_UNSEEN + 9))
