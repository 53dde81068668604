"""Applications that consume without a group: each reads some topics, and keeps its positions itself."""

from __future__ import annotations

from random import Random

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from logd.client.consumer.consumer import Consumer
from logd.client.consumer.stream import MessageStream
from logd.errors import WrapperTooLarge
from logd.testing.memory.clocks import ProcessClock
from tests.simulation.actors.reading import MOST_BYTES, MOST_MESSAGES, Losses, go_on_behind
from tests.simulation.ledger import Ledger
from tests.simulation.violation import Violation
from tests.simulation.world import World


@define(eq=False)
class ConsumingApplication:
    """A reader of ``topics`` whose handled positions last, as if they were in a database with the results."""

    world: World
    ledger: Ledger
    host: str
    brokers: list[tuple[str, int]]
    topics: list[str]
    random: Random = field(init=False)
    clock: ProcessClock | None = field(default=None, init=False)
    _consumer: Consumer | None = field(default=None, init=False)
    _streams: list[MessageStream] = field(factory=list, init=False)
    _former_losses: Losses = field(factory=Losses, init=False)

    def __attrs_post_init__(self) -> None:
        self.random = self.world.random(self.host)

    def start(self) -> None:
        """Begin a life at the positions where the last one ended."""
        random = self.random
        self.clock = clock = ProcessClock(self.world.clock)
        self._consumer = Consumer(
            self.brokers,
            reactor=clock,
            connect=self.world.network.connector(self.host, clock, timeout=3.0),
            random=random.random,
            prefetch_bytes=random.choice([2048, 1 << 20]),
            fetch_bytes=random.choice([200, 1 << 16]),
            max_wait=2.0,
            decode_messages=random.choice([1, 3, 100]),
            request_timeout=4.0,
            retry_delay=0.1,
            retry_delay_limit=2.0,
            metadata_age=20.0,
            max_decompressed=MOST_BYTES,
            max_decompressed_messages=MOST_MESSAGES,
            session_partitions=random.choice([0, 100]),
        )
        for topic in self.topics:
            places = self.ledger.groups.get(self.host, {})
            start = {partition: progress.handled for (name, partition), progress in places.items() if name == topic}
            starts = {**dict.fromkeys(range(16), 0), **start}
            for stream in self._consumer.create_message_streams(topic, random.choice([1, 2]), start=starts):
                self._streams.append(stream)
                Deferred.fromCoroutine(self._read(stream, clock)).addErrback(self._failed)

    def kill(self) -> None:
        """End at once."""
        if self.clock is not None:
            self.clock.kill()
            self.world.network.graveyard.append((self.clock, self._consumer, self._streams))
            self._former_losses, self._streams = self.losses, []
            self.clock = None
            self.world.network.end_host(self.host)

    @property
    def losses(self) -> Losses:
        """The losses that its streams have counted, in all its lives."""
        return self._former_losses.with_those_of(self._streams)

    async def _read(self, stream: MessageStream, clock: ProcessClock) -> None:
        while True:
            try:
                return await self._read_on(stream, clock)
            except WrapperTooLarge as error:
                passed = go_on_behind(error, self.ledger, stream.seek)
                self.world.trace.note(self.host, "goes on behind a wrapper that is too large", passed)

    async def _read_on(self, stream: MessageStream, clock: ProcessClock) -> None:
        async for batch in stream.batches():
            position = batch.position
            for message in batch.messages:
                self.ledger.handle(self.host, self.host, message, position)
                position = message.next_position
            self.world.trace.note(self.host, "handled", (batch.topic, batch.partition, batch.next_position))
            if self.random.random() < 0.2:
                await deferLater(clock, 0.2 * self.random.random())

    def _failed(self, failure: Failure) -> None:
        raise Violation(f"{self.host}: reading failed: {failure.value!r}") from failure.value
