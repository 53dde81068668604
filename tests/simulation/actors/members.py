"""Applications that consume in a group: each reads its share, at times slowly, and is killed now and then."""

from __future__ import annotations

import re
from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from logd.client.consumer.consumer import Consumer
from logd.client.consumer.group_stream import GroupStream
from logd.coord.errors import ClientClosing, CoordinationError, OperationTimeout
from logd.errors import ClientClosed, PartitionLost, WrapperTooLarge
from logd.protocol.message import Message
from logd.testing.inprocess.client import InProcessCoordination
from logd.testing.memory.clocks import ProcessClock
from logd.testing.memory.tree import MemoryTree
from tests.simulation.actors.overseer import Overseer
from tests.simulation.actors.reading import MOST_BYTES, MOST_MESSAGES, Losses, go_on_behind
from tests.simulation.ledger import Ledger
from tests.simulation.violation import Violation
from tests.simulation.world import World

_FOR_EVER = 24 * 60 * 60.0


@define(eq=False)
class Member:
    """A consumer of ``group`` on a host of its own. ``subscriptions``: topics or patterns, with numbers of streams."""

    world: World
    ledger: Ledger
    tree: MemoryTree
    overseer: Overseer
    group: str
    host: str
    subscriptions: list[tuple[str | re.Pattern[str], int]]
    random: Random = field(init=False)
    clock: ProcessClock | None = field(default=None, init=False)
    consumer: Consumer | None = field(default=None, init=False)
    coordination: InProcessCoordination | None = field(default=None, init=False)
    _style: str = field(default="", init=False)
    _explicit: bool = field(default=False, init=False)
    _leaving: bool = field(default=False, init=False)
    _streams: list[GroupStream] = field(factory=list, init=False)
    _former_losses: Losses = field(factory=Losses, init=False)

    def __attrs_post_init__(self) -> None:
        self.random = self.world.random(self.host)

    def start(self) -> None:
        """Begin a life."""
        random, world = self.random, self.world
        self.clock = clock = ProcessClock(world.clock)
        self.coordination = tree = self.tree.client(clock, random.choice([4.0, 6.0]), 5.0)
        tree.connect(_FOR_EVER).addErrback(lambda failure: failure.trap(ClientClosing, OperationTimeout))
        self._style = random.choice(["messages", "batches", "get"])
        self._explicit = random.random() < 0.3
        self._leaving = False
        self.consumer = consumer = Consumer(
            group=self.group,
            coordination=tree,
            consumer_name=self.host,
            reactor=clock,
            connect=world.network.connector(self.host, clock, timeout=3.0),
            random=random.random,
            commit="handled" if self._explicit else "taken",
            commit_interval=random.choice([0.5, 3.0]),
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
        for topic, count in self.subscriptions:
            for stream in consumer.create_message_streams(topic, count):
                assert isinstance(stream, GroupStream)
                self._streams.append(stream)
                Deferred.fromCoroutine(self._read(stream, clock)).addErrback(self._failed)

    def kill(self) -> None:
        """End at once."""
        if self.clock is not None and self.coordination is not None:
            self.clock.kill()
            self.world.network.graveyard.append((self.clock, self.consumer, self.coordination, self._streams))
            self._former_losses, self._streams = self.losses, []
            self.clock = None
            self.world.network.end_host(self.host)
            self.tree.forget(self.coordination)

    def stop(self) -> Deferred[None]:
        """Leave the group and end; fires when that is done."""
        consumer, tree, clock = self.consumer, self.coordination, self.clock
        assert consumer is not None and tree is not None and clock is not None
        self._leaving = True

        def over(_: Any) -> None:
            if self.clock is clock:
                self.kill()

        return consumer.close().addCallback(lambda _: tree.close()).addCallback(over)

    @property
    def losses(self) -> Losses:
        """The losses that its streams have counted, in all its lives."""
        return self._former_losses.with_those_of(self._streams)

    @property
    def leaving(self) -> bool:
        """True once it was told to stop."""
        return self._leaving

    async def _read(self, stream: GroupStream, clock: ProcessClock) -> None:
        while True:
            try:
                return await self._read_on(stream, clock)
            except WrapperTooLarge as error:
                passed = go_on_behind(error, self.ledger, stream.seek)
                self.world.trace.note(self.host, "goes on behind a wrapper that is too large", passed)

    async def _read_on(self, stream: GroupStream, clock: ProcessClock) -> None:
        if self._style == "messages":
            async for message in stream:
                self._taken(message)
                await self._busy(clock)
                self._handled(stream, message, message.id, message)
        elif self._style == "get":
            while True:
                try:
                    message = await stream.get()
                except ClientClosed:
                    return
                self._taken(message)
                await self._busy(clock)
                self._handled(stream, message, message.id, message)
        else:
            async for batch in stream.batches():
                position = batch.position
                for message in batch.messages:
                    self._taken(message)
                await self._busy(clock)
                for message in batch.messages:
                    self._handled(stream, message, position, None)
                    position = message.next_position
                if self._explicit:
                    stream.handled(batch)

    def _taken(self, message: Message) -> None:
        assert self.coordination is not None and self.clock is not None and message.topic is not None
        if self.clock.resumed_at == self.world.clock.seconds():
            return  # it was paused until now with a batch half read: its timers run after those that were due before
        self.overseer.taken(self.group, self.host, self.coordination.session_id, message.topic, message.partition)

    async def _busy(self, clock: ProcessClock) -> None:
        if self.random.random() < 0.1:
            await deferLater(clock, 0.5 * self.random.random())

    def _handled(self, stream: GroupStream, message: Message, position: int, item: Message | None) -> None:
        self.world.trace.note(self.host, "handled", (message.topic, message.partition, message.next_position))
        self.ledger.handle(self.group, self.host, message, position)
        if self._explicit and item is not None:
            stream.handled(item)
        if self.random.random() < 0.05 and self.consumer is not None and self.clock is not None:
            # An explicit commit, some time later: the application may be paused or cut off in between.
            self.clock.callLater(3.0 * self.random.random() ** 2, self._commit, self.consumer)

    def _commit(self, consumer: Consumer) -> None:
        consumer.commit().addErrback(lambda failure: failure.trap(ClientClosed, CoordinationError, PartitionLost))

    def _failed(self, failure: Failure) -> None:
        raise Violation(f"{self.host}: reading failed: {failure.value!r}") from failure.value
