"""Tests of messages given to ``publish`` that meet trouble, in both formats: reports, order, delivery."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from logd.errors import (
    ClientClosed,
    DeliveryFailed,
    InvalidMessage,
    InvalidTopic,
    MessageTooLarge,
    PublishFailed,
    StorageFull,
    TopicCreationDisabled,
    WireError,
    WrongPartition,
)
from logd.protocol.loops import decode_set
from logd.protocol.requests.produce_ack import ProducePart
from tests.client.doubles import run
from tests.client.producers import PublishTestCase


class FailureTests(PublishTestCase):
    """Published messages that cannot be delivered are reported, once each."""

    def failed(self, producer: Any, seconds: float = 1.0) -> PublishFailed:
        """Return the error of a flush."""
        flushing = producer.flush()
        self.run_for(seconds)
        error = self.failureResultOf(flushing, PublishFailed).value
        assert isinstance(error, PublishFailed)
        self.assertEqual(error.count, sum(count for _, count, _ in self.told))
        return error

    def test_a_refused_batch_is_reported_and_fails_the_flush(self) -> None:
        """Those behind it are delivered, and the next flush is fine."""
        producer = self.producer()
        self.result(producer.send("t", b"warm"))
        answers: list[WireError | None] = [InvalidTopic("bad")]
        self.broker.refuse = lambda part: answers.pop() if answers else None
        producer.publish("t", b"1")
        producer.publish("t", b"2")
        self.run_for(0.0005)
        error = self.failed(producer)
        self.assertEqual([(topic, count) for topic, count, _ in self.told], [("t", 2)])
        self.assertIsInstance(error.__cause__, InvalidTopic)
        self.assertIn("2 published messages", str(error))
        producer.publish("t", b"3")
        self.flushed(producer)
        self.assertEqual(self.log.payloads(), [b"warm", b"3"])

    def test_a_send_in_the_batch_fails_by_itself(self) -> None:
        """The report counts published messages alone."""
        producer = self.producer()
        self.result(producer.send("t", b"warm"))
        self.broker.refuse = lambda part: InvalidTopic("bad")
        producer.publish("t", b"1")
        one, several = producer.send("t", b"2"), producer.send("t", [b"3", b"4"])
        producer.publish("t", b"5")
        self.failed(producer)
        for send in (one, several):
            self.failureResultOf(send, InvalidTopic)
        self.assertEqual([count for _, count, _ in self.told], [2])

    def test_messages_too_late_are_reported(self) -> None:
        """That holds for known and unknown topics; the report has the last error."""
        self.broker.refuse = lambda part: StorageFull("full")
        producer = self.producer(delivery_timeout=5.0)
        producer.publish("t", b"1")
        self.run_for(0.1)
        producer.publish("t", b"2")
        error = self.failed(producer, 8.0)
        self.assertIsInstance(error.__cause__, DeliveryFailed)
        self.assertEqual(sum(count for _, count, _ in self.told), 2)
        self.broker.up = False
        self.broker.lose_all()
        self.told.clear()
        lost = self.producer(delivery_timeout=5.0)
        lost.publish("t", b"1")
        lost.publish("u", b"1")
        self.failed(lost, 8.0)
        self.assertEqual(sorted(topic for topic, _, _ in self.told), ["t", "u"])
        self.assertEqual((lost.buffered_bytes, producer.buffered_bytes), (0, 0))

    def test_a_topic_that_cannot_be_had_is_reported(self) -> None:
        """And a partition that is not there, and a partitioner that fails: each with its own messages alone."""
        self.broker.topic_errors["no"] = TopicCreationDisabled.code
        producer = self.producer(partitioner=lambda topic, key, partitions: 1 // (key != b"k") - 1)
        producer.publish("no", b"1")
        for _ in range(2):
            producer.publish("t", b"2", partition=7)
            producer.publish("t", b"3", b"k")
            producer.publish("t", b"4")
            self.run_for()
        kinds = [(topic, count, type(error)) for topic, count, error in self.told]
        self.assertIn(("no", 1, TopicCreationDisabled), kinds)
        self.assertEqual(kinds.count(("t", 1, WrongPartition)), 2)
        self.assertEqual(kinds.count(("t", 1, ZeroDivisionError)), 2)
        self.assertEqual(self.log.payloads(), [b"4", b"4"])
        self.failed(producer)

    def test_without_a_function_failures_are_logged(self) -> None:
        """A function that fails itself is logged, too, and harms nothing."""
        self.broker.refuse = lambda part: InvalidMessage("bad")
        producer = self.producer(on_error=None)
        producer.publish("t", b"1")
        self.failureResultOf(self.after(producer.flush()), PublishFailed)
        producer.on_error = lambda *_: 1 // 0
        producer.publish("t", b"1")
        self.failureResultOf(self.after(producer.flush()), PublishFailed)
        self.assertEqual(len(self.flushLoggedErrors(ZeroDivisionError)), 1)

    def after(self, deferred: Any) -> Any:
        """Return a Deferred after some time."""
        self.run_for(1.0)
        return deferred

    def test_close_reports_what_it_gives_up(self) -> None:
        """Once, though answers of the broker come later."""
        self.broker.delay = 0.5
        producer = self.producer()
        producer.publish("t", b"1")
        self.run_for(1.8)
        producer.publish("t", b"2")
        self.run_for(0.1)
        producer.publish("t", b"3")
        closing = producer.close(0.0)
        self.run_for(2.0)
        self.successResultOf(closing)
        self.assertEqual(sum(count for _, count, _ in self.told), 2)
        self.assertTrue(all(isinstance(error, ClientClosed) for _, _, error in self.told))

    def test_messages_too_large_for_the_topic_are_left_out(self) -> None:
        """With on_too_large="skip" they are reported, and the flush is fine; the rest arrives in order."""
        producer = self.producer(on_too_large="skip")
        self.result(producer.send("t", b"warm"))

        def refuse(part: ProducePart) -> WireError | None:
            return MessageTooLarge("no") if any(len(m.payload or b"") > 300 or len(part.message_set) > 900
                                                for m in decode_set(part.message_set).messages) else None  # fmt: skip

        self.broker.refuse = refuse
        for number in range(30):
            producer.publish("t", b"%d" % number + bytes(400 if number % 10 == 3 else 50))
        self.flushed(producer, 3.0)
        self.assertEqual([count for _, count, _ in self.told], [1, 1, 1])
        order = [int((payload or b"").rstrip(b"\0")) for payload in self.log.payloads()[1:]]
        self.assertEqual(order, [number for number in range(30) if number % 10 != 3])
        self.assertEqual(producer.buffered_bytes, 0)


class TroubledPublishTests(PublishTestCase):
    """Order and delivery through lost connections, refusals and full buffers."""

    @given(
        st.lists(
            st.tuples(st.sampled_from(["publish", "publish", "publish", "send", "set", "lose", "refuse", "wait"]),
                      st.integers(1, 30)),
            max_size=40,
        ),
        st.sampled_from([0.0, 0.004]),
        st.sampled_from([1, 3, 10_000]),
    )  # fmt: skip
    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.differing_executors])
    def test_order_holds_and_nothing_is_lost(self, steps: list[tuple[str, int]], linger: float, most: int) -> None:
        """First occurrences are in the order of the calls, and every message arrives."""
        self.setUp()
        errors: list[WireError] = []
        self.broker.refuse = lambda part: errors.pop() if errors else None
        producer = self.producer(linger=linger, batch_messages=most, buffer_bytes=4000, max_in_flight=3)
        number = 0
        for step, count in steps:
            if step == "lose":
                self.broker.lose_all()
            elif step == "refuse":
                errors.append(StorageFull("full"))
            elif step == "wait":
                run(self.clock, count / 2000, 0.0005)
            elif step == "set":
                producer.send("t", [b"%d" % each for each in range(number, number + count)])
                number += count
            else:
                for _ in range(count):
                    if step == "send":
                        producer.send("t", b"%d" % number)
                    elif not producer.publish("t", b"%d" % number):
                        while not producer.has_room:
                            run(self.clock, 0.005)
                    number += 1
        flushing = producer.flush()
        run(self.clock, 8.0, 0.02)
        self.successResultOf(flushing)
        self.assertEqual(list(dict.fromkeys(self.log.payloads())), [b"%d" % each for each in range(number)])
        self.assertEqual((producer.buffered_bytes, self.told), (0, []))


class PlainFailureTests(FailureTests):
    """The same with an entry for each message."""

    form = "plain"


class PlainTroubledPublishTests(TroubledPublishTests):
    """The same with an entry for each message."""

    form = "plain"
