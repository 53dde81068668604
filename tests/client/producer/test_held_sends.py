"""Tests of sends that wait until their topic is known."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import CancelledError, Deferred

from logd.errors import WrongPartition
from tests.client.producers import ProducerTestCase


class HeldSendsTests(ProducerTestCase):
    """Sends of a producer that has not asked for the topic yet."""

    def test_a_callback_cancels_a_later_one_and_sends_again(self) -> None:
        """The cancelled one is not sent, the new one comes after all that waited."""
        producer = self.producer()
        later: list[Deferred[Any]] = []

        def refused(failure: Any) -> None:
            failure.trap(WrongPartition)
            later[0].cancel()
            later.append(producer.send("t", b"new"))

        wrong = producer.send("t", b"wrong", partition=99).addErrback(refused)
        later += [producer.send("t", b"cancelled"), producer.send("t", b"kept")]
        producer.flush()
        self.run_for(0.5)
        self.successResultOf(wrong)
        self.failureResultOf(later[0], CancelledError)
        kept, new = (self.successResultOf(each) for each in later[1:])
        self.assertEqual(kept.partition, new.partition)
        self.assertLess(kept.first_id, new.first_id)
