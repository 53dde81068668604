"""Applications that read a replicated topic, alone or in a group, and what they were shown."""

from __future__ import annotations

from random import Random
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred
from twisted.internet.task import deferLater
from twisted.python.failure import Failure

from logd.client.consumer.consumer import Consumer
from logd.client.consumer.stream import MessageStream
from logd.coord import paths
from logd.coord.errors import ClientClosing, OperationTimeout
from logd.errors import OffsetOutOfRange
from logd.protocol import loops
from logd.testing.inprocess.client import InProcessCoordination
from logd.testing.memory.clocks import ProcessClock
from tests.simulation.replication.cluster import TOPIC, ReplicatedCluster
from tests.simulation.violation import Violation, check

_FOR_EVER = 24 * 60 * 60.0
GROUP = "readers"


@define(eq=False)
class Shown:
    """The messages that one reader, or one group, was shown: a message at a position stays there."""

    cluster: ReplicatedCluster
    name: str
    #: The payload that begins at a position, by partition.
    payloads: dict[tuple[int, int], bytes] = field(factory=dict, init=False)
    #: The position before which everything was read, by partition.
    handled: dict[int, int] = field(factory=dict, init=False)
    #: The positions that the group has committed, as they were in the tree.
    committed: dict[int, int] = field(factory=dict, init=False)

    def take(self, partition: int, position: int, payload: bytes, end: int) -> None:
        """Note a message that was read from ``position``, and ends at ``end``."""
        record = self.cluster.checker.record(partition)
        known = self.payloads.setdefault((partition, end), payload)
        same = known == payload or not self.cluster.checker.keeps
        check(same, "I5: a reader was shown another message", self.name, partition, end, known, payload)
        handled = self.handled.get(partition, 0)
        begin = max(handled, record.removed)
        if position > begin and self.cluster.checker.keeps:
            passed = loops.decode_set(bytes(record.shown[begin:position]), begin).messages  # none but marks of epochs
            check(not passed, "I5: a reader passed over messages", self.name, partition, begin, position, passed)
        if self.cluster.checker.keeps:
            check(end <= len(record.shown), "I5: a reader saw more than a leader has shown", self.name, partition, end)
        self.handled[partition] = max(handled, end)

    def start(self, partition: int) -> int:
        """Return the position before which messages may have been removed."""
        return self.cluster.checker.record(partition).removed

    def is_complete(self, partition: int) -> bool:
        """Return whether everything that was shown was read; what is behind the last message are marks."""
        log = self.cluster.leading_log(partition)
        return log is not None and self.handled.get(partition, 0) >= self.last_message(partition)

    def last_message(self, partition: int) -> int:
        """Return the position behind the last message that was acknowledged."""
        return self.cluster.checker.record(partition).acknowledged

    def look(self) -> None:
        """Check that the positions of the group do not go back, and are what was read."""
        server = self.cluster.tree.server
        for partition in range(self.cluster.partitions) if server is not None else ():
            assert server is not None
            node = server.tree.nodes.get(paths.group_offset(GROUP, TOPIC, partition))
            # A commit that is not flushed is shown to nobody, and may be gone when the tree has lost its power.
            if node is not None and node.data and node.modified_zxid <= server.flushed:
                position = int(node.data)
                before = self.committed.get(partition, 0)
                check(
                    position >= before or not self.cluster.checker.keeps,
                    "I12: a group's position went back",
                    partition,
                    position,
                    before,
                )
                self.committed[partition] = position


@define(eq=False)
class Reading:
    """A reader without a group, or a member of the group; it keeps one position in each partition."""

    cluster: ReplicatedCluster
    host: str
    shown: Shown
    in_group: bool
    random: Random = field(init=False)
    clock: ProcessClock | None = field(default=None, init=False)
    _consumer: Consumer | None = field(default=None, init=False)
    _coordination: InProcessCoordination | None = field(default=None, init=False)
    _streams: list[MessageStream] = field(factory=list, init=False)

    def __attrs_post_init__(self) -> None:
        self.random = self.cluster.world.random(self.host)

    def start(self) -> None:
        """Begin a life, where the last one ended."""
        if self.clock is not None:
            return
        world, random = self.cluster.world, self.random
        self.clock = clock = ProcessClock(world.clock)
        more: dict[str, Any] = {}
        if self.in_group:
            self._coordination = tree = self.cluster.tree.client(clock, 4.0, 5.0)
            tree.connect(_FOR_EVER).addErrback(lambda failure: failure.trap(ClientClosing, OperationTimeout))
            more = {"group": GROUP, "coordination": tree, "consumer_name": self.host, "commit_interval": 0.7}
        addresses = None if self.in_group else [broker.address for broker in self.cluster.brokers]
        self._consumer = Consumer(
            addresses,
            reactor=clock,
            connect=world.network.connector(self.host, clock, timeout=3.0),
            random=random.random,
            fetch_bytes=random.choice([300, 1 << 16]),
            prefetch_bytes=random.choice([2048, 1 << 20]),
            max_wait=random.choice([0.5, 2.0]),
            request_timeout=4.0,
            retry_delay=0.1,
            retry_delay_limit=1.0,
            corrupt_retries=1000,  # until it is healed
            metadata_age=random.choice([2.0, 20.0]),
            session_partitions=random.choice([0, 1, 100]),
            on_out_of_range="earliest" if self.in_group else "fail",
            **more,
        )
        if self.in_group:
            streams = self._consumer.create_message_streams(TOPIC, 1)
        else:
            numbers = range(self.cluster.partitions)
            start = {number: self.shown.handled.get(number, 0) for number in numbers}
            streams = self._consumer.create_message_streams(TOPIC, 1, list(numbers), start)
        for stream in streams:
            self._streams.append(stream)
            Deferred.fromCoroutine(self._read(stream, clock)).addErrback(self._failed)

    def kill(self) -> None:
        """End at once."""
        if self.clock is not None:
            self.clock.kill()
            self.cluster.world.network.graveyard.append(
                (self.clock, self._consumer, self._coordination, self._streams)
            )  # fmt: skip
            self.clock, self._streams = None, []
            self.cluster.world.network.end_host(self.host)
            if self._coordination is not None:
                self.cluster.tree.forget(self._coordination)
                self._coordination = None

    async def _read(self, stream: MessageStream, clock: ProcessClock) -> None:
        while True:
            try:
                return await self._read_on(stream, clock)
            except OffsetOutOfRange as error:
                starts = {each: self.shown.start(each) for each in range(self.cluster.partitions)}
                keeps, handled = self.cluster.checker.keeps, self.shown.handled
                late = [each for each, start in starts.items() if handled.get(each, 0) < start or not keeps]
                check(bool(late), "I5: what a reader was shown is gone", self.host, self.shown.handled, str(error))
                for partition in late:
                    stream.seek(partition, starts[partition])

    async def _read_on(self, stream: MessageStream, clock: ProcessClock) -> None:
        async for batch in stream.batches():
            position = batch.position
            for message in batch.messages:
                self.shown.take(message.partition or 0, position, message.payload or b"", message.next_position)
                position = message.next_position
            if self.random.random() < 0.3:
                await deferLater(clock, 0.3 * self.random.random())

    def _failed(self, failure: Failure) -> None:
        if not failure.check(Violation):
            raise Violation(f"{self.host}: reading failed: {failure.value!r}") from failure.value
