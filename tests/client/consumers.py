"""A test case for consumers: a broker in memory with messages, and helpers to read them."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.internet.task import Clock
from twisted.trial.unittest import SynchronousTestCase

from logd.client.consumer.consumer import Consumer
from logd.client.consumer.stream import MessageStream
from logd.protocol.loops import encode_set
from logd.protocol.message import Message
from tests.client.doubles import ModelBroker, run


class ConsumerTestCase(SynchronousTestCase):
    """A model broker with messages, and consumers of it."""

    def setUp(self) -> None:
        """Fill three partitions with one hundred messages of 19 bytes each."""
        self.clock = Clock()
        self.broker = ModelBroker(self.clock)
        self.logs = self.broker.add("t", 3)
        for number, log in self.logs.items():
            log.data += encode_set([Message(b"%d-%08d" % (number, index)) for index in range(100)])

    def consumer(self, **settings: Any) -> Consumer:
        """Make a consumer of the model."""
        given = {"reactor": self.clock, "connect": self.broker.connect, "random": lambda: 0.5, **settings}
        return Consumer("model:6667", **given)

    def stream(self, partitions: list[int] | None = None, start: Any = None, **settings: Any) -> MessageStream:
        """Return the only stream of a new consumer."""
        (stream,) = self.consumer(**settings).create_message_streams("t", 1, partitions, start)
        return stream

    def run_for(self, seconds: float = 0.5) -> None:
        """Advance the clock in small steps, so that requests are answered."""
        run(self.clock, seconds)

    def read(self, stream: MessageStream, most: int = 10_000) -> tuple[list[Message], Deferred[None]]:
        """Read up to ``most`` messages in the background; return them and the loop, which fires at its end."""
        messages: list[Message] = []

        async def loop() -> None:
            async for message in stream:
                messages.append(message)
                if len(messages) == most:
                    break

        return messages, Deferred.fromCoroutine(loop())

    def payloads(self, messages: list[Message], partition: int) -> list[bytes | None]:
        """Return the payloads of one partition's messages, in the order in which they came."""
        return [message.payload for message in messages if message.partition == partition]
