"""Tests of applications that send or publish again from within the report of a failure."""

from __future__ import annotations

from typing import Any

from logd.errors import ClientClosed, DeliveryFailed, TopicCreationDisabled
from logd.protocol.requests.produce_ack import ProduceAck
from tests.client.producers import PublishTestCase


class SendingAgainTests(PublishTestCase):
    """Reports come from within the producer's own loops, which calls from a report must not disturb."""

    def test_a_send_from_a_failure_to_the_same_topic_ends_too(self) -> None:
        """It asks for the topic again, after a delay; flushes do not wait for ever, and no memory stays held."""
        self.broker.topic_errors["no"] = TopicCreationDisabled.code
        producer = self.producer()
        again: list[Any] = []

        def send_again(failure: Any) -> None:
            again.append(producer.send("no", b"again"))

        producer.send("no", b"1").addErrback(send_again)
        self.run_for(5.0)
        (second,) = again
        self.failureResultOf(second, TopicCreationDisabled)
        self.assertEqual(producer.buffered_bytes, 0)
        self.flushed(producer)

    def test_a_message_published_from_on_error_to_the_same_topic_is_delivered_once_it_is_there(self) -> None:
        """The topic may be created a moment later."""
        self.broker.topic_errors["t"] = TopicCreationDisabled.code
        producer = self.producer()

        def told(topic: str, count: int, error: Exception) -> None:
            self.broker.topic_errors.clear()
            producer.publish(topic, b"again")

        producer.on_error = told
        producer.publish("t", b"1")
        self.run_for(5.0)
        self.assertEqual(self.log.payloads(), [b"again"])
        self.assertEqual(producer.buffered_bytes, 0)

    def test_a_report_may_publish_to_a_topic_that_is_not_known_yet(self) -> None:
        """Such as one for dead letters, while the broker is away: deadlines are still kept, and nothing is logged."""
        self.broker.up = False
        producer = self.producer(delivery_timeout=3.0)

        def told(topic: str, count: int, error: Exception) -> None:
            self.told.append((topic, count, error))
            if topic != "dead":
                producer.publish("dead", b"1")

        producer.on_error = told
        producer.publish("t", b"1")
        producer.publish("u", b"1")
        self.run_for(10.0)
        self.assertEqual([topic for topic, _, _ in self.told], ["t", "u", "dead"])
        self.assertTrue(all(isinstance(error, DeliveryFailed) for _, _, error in self.told))
        self.assertEqual(producer.buffered_bytes, 0)

    def test_closing_leaves_no_timer_for_messages_behind_waiting_sends(self) -> None:
        """They are reported, not put into batches that linger on."""
        self.broker.silent = (ProduceAck,)
        producer = self.producer(buffer_bytes=3000, linger=5.0)
        self.result_later = [producer.send("t", b"x" * 1000) for _ in range(4)]
        self.run_for(0.1)
        self.result_later.append(producer.send("t", b"y"))
        producer.publish("t", b"behind")
        closing = producer.close(0.0)
        for send in self.result_later:
            send.addErrback(lambda failure: failure.trap(ClientClosed))
        self.run_for(0.5)
        self.successResultOf(closing)
        self.assertEqual([(topic, count, type(error)) for topic, count, error in self.told], [("t", 1, ClientClosed)])
        self.assertEqual(
            [call for call in self.clock.getDelayedCalls() if call.getTime() > self.clock.seconds() + 1], []
        )
