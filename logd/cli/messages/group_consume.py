"""``logd consume --group``: writes a member's share of a topic to standard output, and commits what is written."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.python.failure import Failure

from logd.cli.messages.avro_lines import complain_of_undecoded, end_rendering, rendered, renderer_of, store_undecoded
from logd.cli.messages.failures import complain_of, complain_of_rest
from logd.cli.messages.gone_topic import check_in_tree
from logd.cli.terminal.blocking_calls import BackgroundThread
from logd.cli.terminal.exits import complain
from logd.cli.terminal.output import Output
from logd.cli.terminal.progress import ProgressLine
from logd.cli.tree_session import tree_at
from logd.client.admin.admin import Admin
from logd.client.admin.lag import find_brokers
from logd.client.consumer.consumer import Consumer
from logd.client.consumer.fetching.batches import MessageBatch
from logd.client.consumer.fetching.losses import LossReporter
from logd.client.consumer.group_stream import GroupStream
from logd.client.starting_positions import Start
from logd.coord.errors import CoordinationError
from logd.coord.interfaces import ICoordination
from logd.coord.registries.offsets import OffsetRegistry
from logd.deferreds.sleeping import sleep
from logd.errors import PartitionLost, UnknownTopic
from logd.interfaces import Clock
from logd.plurals import counted
from logd.topic import TopicPartition

#: Seconds that a member which ends waits for the tree to store its positions.
LEAVE_SECONDS = 10.0
#: Seconds between two checks of whether the group has handled everything up to the ends.
LOOK_SECONDS = 0.5


class GroupEnds(NamedTuple):
    """The uuid of a topic, and the beginning and end of each partition when the command began."""

    uuid: str
    logs: Mapping[int, tuple[int, int]]


async def consume_as_member(
    reactor: Any,
    *,
    topic: str,
    group: str,
    zookeeper: str,
    broker: str | None,
    start: Start,
    most: int | None,
    exit_at_end: bool,
    shape: str,
    reading: Mapping[str, Any],
    registry: str,
    quiet: bool,
) -> None:
    """Consume until ``most`` messages are written or, with ``exit_at_end``, the group has reached the ends."""
    async with tree_at(reactor, zookeeper) as tree:
        ends = await _ends(reactor, tree, topic, broker, exit_at_end)
        if most == 0:
            return
        with ProgressLine(f"from {topic}", most, quiet or sys.stdout.isatty()) as progress:
            render = renderer_of(reactor, shape, registry, reading["on_corrupt"])
            member = Member(reactor, render, progress)
            try:
                await member.consume(tree, topic, broker, group, start, reading, most, ends)
                complain_of_undecoded(render)
            finally:
                await end_rendering(render)


async def _ends(
    reactor: Any, tree: ICoordination, topic: str, broker: str | None, exit_at_end: bool
) -> GroupEnds | None:
    """Return the beginning and end of each partition; None without ``exit_at_end``. Reports a topic that is missing."""
    brokers: Any = broker if broker is not None else await find_brokers(tree)
    admin = Admin(brokers, reactor=reactor)
    try:
        described = await admin.describe(topic)
        if not exit_at_end:
            return None
        logs = await admin.describe_logs(topic, [each.partition for each in described.partitions])
    except UnknownTopic:
        if exit_at_end:
            raise
        complain(f"there is no topic {topic!r} yet; waiting for it")
        return None
    finally:
        await admin.close()
    return GroupEnds(described.uuid, {each: (log.log_start, log.visible_end) for each, log in logs.items()})


class Member:
    """One consumer of a group that writes to standard output."""

    def __init__(self, reactor: Any, render: Any, progress: ProgressLine) -> None:
        self._reactor = reactor
        self._render = render
        self._progress = progress
        self._output = Output(BackgroundThread(reactor))
        #: The write under way; fires, and never fails, once its messages are written and count as handled.
        self._writing: Deferred[None] = succeed(None)
        #: The first failure of a write, or of the check of the ends.
        self.failure: BaseException | None = None
        self._losses = LossReporter()
        self._ended = False

    async def consume(
        self,
        tree: ICoordination,
        topic: str,
        broker: str | None,
        group: str,
        start: Start,
        settings: Mapping[str, Any],
        most: int | None,
        ends: GroupEnds | None,
    ) -> None:
        """Take part in the group; leave it with all positions stored, however this ends."""
        consumer = Consumer(
            broker,
            group=group,
            coordination=tree,
            start=start,
            **settings,
            commit="handled",
            leave_timeout=LEAVE_SECONDS,
            on_assigned=lambda partitions: self._tell(group, partitions),
            on_revoked=lambda partitions: self._written(),
            reactor=self._reactor,
        )
        looking: Deferred[None] = succeed(None)
        try:
            store_undecoded(self._render, consumer, settings["dead_letters"])
            (stream,) = consumer.create_message_streams(topic, 1)
            assert isinstance(stream, GroupStream)
            reading = Deferred.fromCoroutine(self.read(stream, most))
            if ends is not None:
                looking = Deferred.fromCoroutine(until_handled(self._reactor, consumer, tree, group, topic, ends))
                looking.addBoth(self._stop, reading)
            try:
                await reading
            except CancelledError:
                if not self._ended:
                    raise
            if self.failure is not None:
                raise self.failure
            if stream.skipped:
                complain(f"skipped {counted(stream.skipped, 'damaged range')}, {counted(stream.skipped_bytes, 'byte')}")
            complain_of_rest(self._losses)
        finally:
            self._ended = True
            looking.cancel()
            await self._written()
            await consumer.close()

    def _stop(self, result: object, reading: Deferred[None]) -> None:
        """End the reading: the group has reached the ends, or the check of its positions failed."""
        if not self._ended:
            self._ended = True
            if isinstance(result, Failure):
                self.failure = result.value
            reading.cancel()

    async def read(self, stream: GroupStream, most: int | None) -> None:
        """Write ``most`` messages, all that come by default. Ends at the first ``failure``, which is not raised."""
        left = most
        async for batch in stream.batches():
            complain_of(self._losses, batch)
            messages = batch.messages[:left]
            self._begin_to_write(stream, batch, len(messages))
            await self._written()
            if self.failure is not None:
                return
            if left is not None:
                left -= len(messages)
                if left <= 0:
                    break

    def _begin_to_write(self, stream: GroupStream, batch: MessageBatch, count: int) -> None:
        """Write the batch's first messages. Cancelling the waiting does not stop the write or its commit."""

        async def write() -> None:
            messages = batch.messages[:count]
            try:
                await self._output.write(await rendered(self._render, messages))
            except Exception as error:  # an unexpected one too: the messages behind these must not be committed
                self.failure = error
            else:
                if count == len(batch.messages):  # also an empty batch, which reports losses and moves the position
                    stream.handled(batch)
                elif messages:
                    stream.handled(messages[-1])
                self._progress.advance(count, count)

        self._writing = Deferred.fromCoroutine(write())

    def _written(self) -> Deferred[None]:
        """Return a Deferred that fires when nothing is being written; cancelling it stops only the waiting."""
        waiting: Deferred[None] = Deferred()

        def done(result: Any) -> Any:
            if not waiting.called:
                waiting.callback(None)
            return result

        self._writing.addBoth(done)
        return waiting

    def _tell(self, group: str, partitions: Sequence[TopicPartition]) -> None:
        self._progress.describe(f"as one of {group}, from {counted(len(partitions), 'partition')}")


async def until_handled(
    clock: Clock, consumer: Consumer, tree: ICoordination, group: str, topic: str, ends: GroupEnds
) -> None:
    """Return once the group's stored positions, from any member, have reached the ends.

    Raises UnknownTopic if the topic is deleted, or made again, before: its positions would never come so far.
    """
    offsets = OffsetRegistry(tree, group)
    while True:
        with suppress(CoordinationError, PartitionLost):
            await consumer.commit()
            stored = await offsets.read_all(topic)
            if all(
                begin == end or (partition in stored and (stored[partition].position or 0) >= end)
                for partition, (begin, end) in ends.logs.items()
            ):
                return
        await check_in_tree(tree, topic, ends.uuid, "before the group had handled all of its messages")
        await sleep(clock, LOOK_SECONDS)
