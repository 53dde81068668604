"""Tests of what a producer logs while no broker tells it of a topic."""

from __future__ import annotations

from logd.client.log_warnings import tell_warnings
from logd.errors import CoordinationUnavailable, DeliveryFailed
from tests.client.producers import ProducerTestCase


class TopicSearchTests(ProducerTestCase):
    """A producer whose topics the broker can neither describe nor create."""

    def setUp(self) -> None:
        """Collect the warnings that a command would show."""
        super().setUp()
        self.told: list[str] = []
        self.addCleanup(tell_warnings(self.told.append))

    def refuse(self, *topics: str) -> None:
        """Have the broker refuse these topics, and no others."""
        self.broker.topic_errors = dict.fromkeys(topics, CoordinationUnavailable.code)

    def test_a_lasting_refusal_is_told_once_with_the_reason(self) -> None:
        """The sends end later, and their error has the reason as well."""
        self.refuse("t")
        sending = self.producer(delivery_timeout=20.0).send("t", b"hello")
        self.run_for(2.5)
        self.assertEqual(self.told, [])
        self.run_for(3.0)
        (line,) = self.told
        self.assertIn("cannot send to topic 't' for ", line)
        self.assertIn("still trying: ", line)
        self.assertIn("is not registered there", line)
        self.run_for(20.0)
        self.assertIn("is not registered there", str(self.failureResultOf(sending, DeliveryFailed).value))
        self.assertEqual(len(self.told), 1)

    def test_a_refusal_that_passes_in_seconds_is_not_told(self) -> None:
        """A broker that starts needs that time."""
        self.refuse("t")
        sending = self.producer().send("t", b"hello")
        self.run_for(2.0)
        self.refuse()
        self.run_for(5.0)
        self.successResultOf(sending)
        self.assertEqual(self.told, [])

    def test_many_topics_are_told_in_one_line(self) -> None:
        """The line names the first of them, and counts the others."""
        topics = [f"t{number}" for number in range(9)]
        self.refuse(*topics)
        producer = self.producer()
        sending = [producer.send(topic, b"hello") for topic in topics]
        self.run_for(6.0)
        (line,) = self.told
        self.assertIn("cannot send to topics 't0', 't1', 't2' and 6 others for ", line)
        self.refuse()
        self.run_for(5.0)
        for each in sending:
            self.successResultOf(each)

    def test_a_broker_that_is_away_is_told_by_its_own_line_alone(self) -> None:
        """The topic is not in question."""
        self.broker.up = False
        sending = self.producer().send("t", b"hello")
        self.run_for(6.0)
        (line,) = self.told
        self.assertIn("no connection to the broker", line)
        self.broker.up = True
        self.run_for(5.0)
        self.successResultOf(sending)
