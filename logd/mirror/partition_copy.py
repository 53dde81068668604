"""The copy of one partition while a mirror owns it: its sets on the way to the target, and how far they have come.

Copies that failed begin anew after a delay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred, succeed
from twisted.python.failure import Failure

from logd.backoff import Backoff
from logd.client.consumer.fetching.batches import RawChunk
from logd.client.producer.pending_send import Sent
from logd.deferreds.waiting import WaitingDeferreds
from logd.errors import LogdError
from logd.mirror.sets.held_sets import HeldSets
from logd.mirror.sets.keyed_sets import sets_by_key
from logd.mirror.sets.whole_entries import MovingSet, WholeEntries
from logd.mirror.settings import MirrorSettings
from logd.mirror.target_topics import MirroredTopic
from logd.topic import TopicPartition

#: Sends a set to a partition of the target.
SendSet = Callable[[str, int, bytes], Deferred[Sent]]


class Copied(NamedTuple):
    """The place of copies in a partition of the target: the first id, and the position behind the last one."""

    first: int
    next_position: int


@define(eq=False)
class _Step:
    """One chunk of the source's log, until all its sets are stored."""

    chunk: RawChunk
    moving: MovingSet
    #: Sets that are not stored yet.
    left: int = 0
    #: The place of the chunk's sets on the target, by partition.
    copied: dict[int, Copied] = field(factory=dict)


@define(eq=False)
class PartitionCopy:
    """One partition of the source in one tenure of this mirror.

    ``stored`` is called for each chunk, in order, once all before it and its own sets are acknowledged, with the copy,
    the chunk without its bytes, what was sent of it, and where that is now, by partition of the target;
    ``failed(copy, error)`` once if something cannot be sent.
    """

    where: TopicPartition
    topic: MirroredTopic
    send: SendSet
    stored: Callable[[PartitionCopy, RawChunk, MovingSet, Mapping[int, Copied]], None]
    failed: Callable[[PartitionCopy, Exception], None]
    #: The position on the source behind what is stored on the target; at first where this tenure began, -1 if that is
    #: not known before the first chunk.
    done: int
    #: The positions on the target behind what is stored there, by partition.
    positions: dict[int, int] = field(factory=dict)
    #: Bytes that are sent and not stored.
    in_flight: int = 0
    closed: bool = False
    held: HeldSets = field(factory=HeldSets)
    _entries: WholeEntries = field(factory=WholeEntries, init=False)
    _steps: deque[_Step] = field(factory=deque, init=False)
    _sends: dict[Deferred[Sent], None] = field(factory=dict, init=False)
    _drained: WaitingDeferreds[None] = field(factory=WaitingDeferreds, init=False)

    def take(self, chunk: RawChunk) -> None:
        """Send the whole entries that are complete with ``chunk``.

        Raises CorruptMessage and WrapperTooLarge for entries that cannot be moved; nothing of the chunk is sent then,
        or, where sets are divided by key, a part that is sent again later.
        """
        if self.held.closed:
            return
        if self.done < 0:
            self.done = chunk.position
        moving = self._entries.take(chunk.position, chunk.data, chunk.visible_end)
        step = _Step(chunk._replace(position=chunk.next_position, data=b""), moving, left=1)
        self._steps.append(step)
        self.in_flight += moving.end - moving.start
        try:
            self.held.add(self.where, moving, partial(self._send, step), partial(self.failed, self))
        except Exception:
            self._steps.remove(step)
            self.in_flight -= moving.end - moving.start
            raise

    @property
    def is_open(self) -> bool:
        """Return whether chunks are still taken."""
        return not self.held.closed

    def drained(self) -> Deferred[None]:
        """Take nothing more, drop what is not sent, and return a Deferred that fires once nothing is in flight.

        The Deferred is cancellable.
        """
        self._drop_held()
        return succeed(None) if not self._steps or self.closed else self._drained.new()

    def abandon(self) -> None:
        """Send nothing more, and take back what has not left. Nothing is called any more."""
        if not self.closed:
            self.closed = True
            self._drop_held()
            for sending in list(self._sends):
                sending.cancel()
            self._steps.clear()
            self.in_flight = 0
            self._drained.fire(None)

    def _send(self, step: _Step) -> None:
        for partition, message_set in self._sets(step.moving):
            step.left += 1
            sending = self.send(self.topic.target, partition, message_set)
            self._sends[sending] = None
            sending.addCallbacks(self._stored, self._failed, callbackArgs=(step, sending), errbackArgs=(sending,))
        step.left -= 1
        self._settle()

    def _drop_held(self) -> None:
        for _ in range(self.held.close()):
            moving = self._steps.pop().moving
            self.in_flight -= moving.end - moving.start

    def _sets(self, moving: MovingSet) -> Iterator[tuple[int, bytes]]:
        if not moving.data:
            return
        if self.topic.same_partitions:
            yield self.where.partition, moving.data
            return
        for each in sets_by_key(moving.data, moving.start, self.where.partition, self.topic.target_partitions):
            yield each.partition, each.data

    def _stored(self, sent: Sent, step: _Step, sending: Deferred[Sent]) -> None:
        self._sends.pop(sending, None)
        step.left -= 1
        before = step.copied.get(sent.partition)
        first, behind = (sent.first_id, sent.next_position) if before is None else before
        step.copied[sent.partition] = Copied(min(first, sent.first_id), max(behind, sent.next_position))
        self._settle()

    def _failed(self, failure: Failure, sending: Deferred[Sent]) -> None:
        self._sends.pop(sending, None)
        if not self.closed and not failure.check(CancelledError):
            error = failure.value
            self.failed(self, error if isinstance(error, Exception) else LogdError(failure.getErrorMessage()))

    def _settle(self) -> None:
        """Go past the chunks that are stored, in order."""
        steps = self._steps
        while steps and not steps[0].left and not self.closed:
            step = steps.popleft()
            self.in_flight -= step.moving.end - step.moving.start
            self.done = max(self.done, step.moving.end)
            self.positions.update((partition, place.next_position) for partition, place in step.copied.items())
            self.stored(self, step.chunk, step.moving, step.copied)
        if not steps:
            self._drained.fire(None)


@define(eq=False)
class NewBeginnings:
    """The delay before each partition's next beginning, which grows until something of the partition is stored."""

    settings: MirrorSettings
    random: Callable[[], float]
    _backoffs: dict[TopicPartition, Backoff] = field(factory=dict, init=False)
    #: The partitions whose delay is not over.
    _waiting: set[TopicPartition] = field(factory=set, init=False)

    def __contains__(self, where: TopicPartition) -> bool:
        """Return whether a partition's delay is not over."""
        return where in self._waiting

    def begin(self, where: TopicPartition) -> float:
        """Return the delay of a partition in seconds, which begins now; ``end`` is called once it is over."""
        self._waiting.add(where)
        settings = self.settings
        return self._backoffs.setdefault(where, Backoff(settings.retry_delay, settings.retry_limit, self.random)).next()

    def end(self, where: TopicPartition) -> None:
        """Let a partition begin."""
        self._waiting.discard(where)

    def stored(self, where: TopicPartition) -> None:
        """Let the next delay of a partition be as short as the first one."""
        self._backoffs.pop(where, None)
