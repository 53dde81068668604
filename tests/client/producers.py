"""A test case for producers: a broker in memory, and a clock that is turned by hand."""

from __future__ import annotations

from typing import Any, ClassVar

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.client.producer.pending_send import Sent
from logd.client.producer.producer import Producer
from logd.protocol.loops import decode_set
from logd.protocol.requests.produce_ack import ProduceAck
from tests.client.doubles import ModelBroker, run


class ProducerTestCase(SynchronousTestCase):
    """A model broker and producers of it."""

    def setUp(self) -> None:
        """Make a broker with one topic of one partition."""
        self.clock = Clock()
        self.broker = ModelBroker(self.clock)
        self.log = self.broker.add("t")[0]

    def producer(self, **settings: Any) -> Producer:
        """Make a producer of the model."""
        given = {"reactor": self.clock, "connect": self.broker.connect, "random": lambda: 0.5, **settings}
        return Producer("model:6667", **given)

    def run_for(self, seconds: float = 0.1) -> None:
        """Advance the clock in small steps, so that requests are answered."""
        run(self.clock, seconds)

    def result(self, deferred: Deferred[Sent], seconds: float = 0.1) -> Sent:
        """Return the result of a send, after some time."""
        self.run_for(seconds)
        return self.successResultOf(deferred)

    def sets(self) -> list[int]:
        """Return the number of messages in each set that was sent."""
        return [
            len(decode_set(part.message_set).messages)
            for request in self.broker.requests
            if isinstance(request, ProduceAck)
            for part in request.parts
        ]


class PublishTestCase(ProducerTestCase):
    """Producers of one format, and what they report."""

    form: ClassVar[str] = "batch"

    def setUp(self) -> None:
        """Keep the reports of failures."""
        super().setUp()
        self.told: list[tuple[str, int, Exception]] = []

    def producer(self, **settings: Any) -> Any:
        """Make a producer of the model that reports to ``told``."""
        given = {"format": self.form, "on_error": lambda *report: self.told.append(report), **settings}
        return super().producer(**given)

    def flushed(self, producer: Any, seconds: float = 1.0) -> None:
        """Flush without an error."""
        flushing = producer.flush()
        self.run_for(seconds)
        self.successResultOf(flushing)
