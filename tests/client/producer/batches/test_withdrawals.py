"""Tests of sends that are cancelled together before they have left."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from twisted.internet.defer import CancelledError

from logd.client.producer.batches.batch import ProducerBatch
from tests.client.producers import ProducerTestCase


class WithdrawalTests(ProducerTestCase):
    """``Withdrawals``."""

    def test_cancelling_many_sends_costs_one_look_at_their_batch(self) -> None:
        """To take each one out by itself took minutes for what a producer may hold."""
        looks: list[int] = []
        remove = ProducerBatch.remove

        def count(batch: ProducerBatch, sends: Collection[Any]) -> object:
            looks.append(len(sends))
            return remove(batch, sends)

        self.patch(ProducerBatch, "remove", count)
        producer = self.producer(linger=60.0)
        producer.send("t", b"first", partition=0)
        self.run_for(0.1)
        sending = [producer.send("t", b"%d" % number, partition=0) for number in range(1000)]
        for each in sending[:999]:
            each.cancel()
            self.failureResultOf(each, CancelledError)
        self.run_for(0.01)
        self.assertEqual(looks, [999])
        flushing = producer.flush()
        self.result(sending[-1])
        self.successResultOf(flushing)
        self.assertEqual(self.log.payloads(), [b"first", b"999"])
        self.assertEqual(producer.buffered_bytes, 0)

    def test_what_is_cancelled_does_not_leave_in_the_same_turn(self) -> None:
        """The batch that is about to leave is looked at first."""
        producer = self.producer()
        self.result(producer.send("t", b"first", partition=0))
        sending = [producer.send("t", b"%d" % number, partition=0) for number in range(3)]
        sending[1].cancel()
        self.failureResultOf(sending[1], CancelledError)
        self.clock.advance(0)
        self.result(sending[2])
        self.assertEqual(self.log.payloads(), [b"first", b"0", b"2"])

    def test_sets_and_messages_between_the_cancelled_ones_keep_their_places(self) -> None:
        """Each send that is left is told where its own messages are."""
        for form in ("batch", "plain"):
            producer = self.producer(linger=0.05, format=form)
            self.result(producer.send("t", b"first", partition=0), 1.0)
            before = len(self.log.payloads())
            kinds: list[Any] = [b"a", [b"b", b"bb"], b"ccc", [b"d", b"dd", b"ddd"], b"e", b"ff"]
            sending = [producer.send("t", each, partition=0) for each in kinds]
            for number in (0, 3, 4):
                sending[number].cancel()
                self.failureResultOf(sending[number], CancelledError)
            self.run_for(1.0)
            self.assertEqual(self.log.payloads()[before:], [b"b", b"bb", b"ccc", b"ff"])
            pair, one, last = (self.successResultOf(sending[number]) for number in (1, 2, 5))
            self.assertEqual((pair.next_position, one.next_position), (one.first_id, last.first_id))
            self.assertEqual(last.next_position, self.log.end)
            self.assertEqual(producer.buffered_bytes, 0)
