"""What the tests of the producer share: a broker in memory, a clock that stands still."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.client.producer.pending_send import Sent
from logd.client.producer.producer import Producer
from logd.protocol.loops import decode_set
from logd.protocol.requests.produce_ack import ProduceAck
from tests.client.model import ModelBroker, run


class ProducerCase(SynchronousTestCase):
    """A model broker and producers of it."""

    def setUp(self) -> None:
        """A broker with one topic of one partition."""
        self.clock = Clock()
        self.broker = ModelBroker(self.clock)
        self.log = self.broker.add("t")[0]

    def producer(self, **settings: Any) -> Producer:
        """A producer of the model."""
        given = {"reactor": self.clock, "connect": self.broker.connect, "random": lambda: 0.5, **settings}
        return Producer("model:6667", **given)

    def run_for(self, seconds: float = 0.1) -> None:
        """Let time pass."""
        run(self.clock, seconds)

    def result(self, deferred: Deferred[Sent], seconds: float = 0.1) -> Sent:
        """What a send fires with."""
        self.run_for(seconds)
        return self.successResultOf(deferred)

    def sets(self) -> list[int]:
        """The number of messages in each set that was sent."""
        return [
            len(decode_set(part.message_set).messages)
            for request in self.broker.requests
            if isinstance(request, ProduceAck)
            for part in request.parts
        ]
