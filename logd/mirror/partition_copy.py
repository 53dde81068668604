"""The copy of one partition while a mirror owns it: its sets on the way to the target, and how far they have come.

Copies that failed begin anew after a delay.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from attrs import define, field
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.backoff import Backoff
from logd.client.consumer.fetching.batches import RawChunk
from logd.client.producer.pending_send import Sent
from logd.deferreds.background import Background
from logd.deferreds.waiting import WaitingDeferreds
from logd.errors import LogdError
from logd.mirror.set_preparation import SetPreparation
from logd.mirror.sets.held_sets import HeldSets
from logd.mirror.sets.keyed_sets import KeyedSet
from logd.mirror.sets.whole_entries import MovingSet, SourceEntries, WholeEntries
from logd.mirror.settings import MirrorSettings
from logd.mirror.target_topics import MirroredTopic
from logd.protocol.slices import Steps
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
    #: The number of positions of the source's log that are covered.
    size: int
    #: None once they are prepared.
    entries: SourceEntries | None
    #: The set that is sent, once it is prepared.
    moving: MovingSet | None = None
    #: The set divided by key, None if it is not divided, or while it is sent.
    divided: Sequence[KeyedSet] | None = None
    #: Sets that are not stored yet, and 1 until all are sent; then 1 while they are counted.
    left: int = 1
    #: The place of the chunk's sets on the target, by partition.
    copied: dict[int, Copied] = field(factory=dict)


@define(eq=False)
class PartitionCopy:
    """One partition of the source in one tenure of this mirror.

    ``stored`` is called for each chunk, in order, once all before it and its own sets are acknowledged and counted,
    with the copy, the chunk without its bytes, and what was sent of it; ``failed(copy, error)`` once if something
    cannot be sent or counted.
    """

    _log = Logger()

    where: TopicPartition
    topic: MirroredTopic
    preparation: SetPreparation
    send: SendSet
    stored: Callable[[PartitionCopy, RawChunk, MovingSet], None]
    failed: Callable[[PartitionCopy, Exception], None]
    #: The position on the source behind what is stored on the target; at first where this tenure began, -1 if that is
    #: not known before the first chunk.
    done: int
    #: The positions on the target behind what is stored there, by partition.
    positions: dict[int, int] = field(factory=dict)
    #: Bytes of the source that were taken and are not stored.
    in_flight: int = 0
    #: The positions at which reading has gone on elsewhere, until the first chunk from there is stored.
    _jumps: deque[int] = field(factory=deque, init=False)
    _held: HeldSets[_Step] = field(init=False)
    _entries: WholeEntries = field(factory=WholeEntries, init=False)
    _steps: deque[_Step] = field(factory=deque, init=False)
    #: The sets that are sent and not stored, with their sizes.
    _sends: dict[Deferred[Sent], int] = field(factory=dict, init=False)
    #: Those who wait for something to be stored.
    _settled: WaitingDeferreds[None] = field(factory=WaitingDeferreds, init=False)
    _counting: Background = field(factory=lambda: Background("the count of a partition's copies"), init=False)

    def __attrs_post_init__(self) -> None:
        self._held = HeldSets(self._prepare, self._send, self._cannot_send)

    def take(self, chunk: RawChunk) -> bool:
        """Send the whole entries that are complete with ``chunk``, once they are prepared; return ``is_open``.

        ``failed`` is called with an error of entries that cannot be moved, once all chunks before are stored. Nothing
        of their chunk is sent.
        """
        if self._held.closed:
            return False
        if self.done < 0:
            self.done = chunk.position
        if chunk.losses:
            self._jumps.append(chunk.position)
        try:
            entries = self._entries.take(chunk.position, chunk.data, chunk.visible_end)
        except LogdError as error:
            self._held.add(error)
        else:
            passed = chunk._replace(position=chunk.next_position, data=b"")
            step = _Step(passed, entries.end - entries.start, entries)
            self._steps.append(step)
            self.in_flight += step.size
            self._held.add(step)
        return self.is_open

    @property
    def next_beginning(self) -> int:
        """Return the position at which the next copy of the partition has to begin, -1 if nothing was read.

        While nothing behind a jump is stored, ``done`` is a position in the log before it: the log may have come to it
        again with others' messages, which were not copied.
        """
        return self._jumps[-1] if self._jumps else self.done

    @property
    def is_open(self) -> bool:
        """Return whether chunks are still taken."""
        return not self._held.closed

    @property
    def closed(self) -> bool:
        """Return whether the copy was abandoned."""
        return self._counting.was_stopped

    def drained(self) -> Deferred[None]:
        """Take nothing more, drop what is not sent, and return a Deferred that fires once nothing is in flight.

        The Deferred is cancellable.
        """
        for _ in range(self._held.close()):
            self.in_flight -= self._steps.pop().size
        return Deferred.fromCoroutine(self._all_stored())

    def abandon(self) -> None:
        """Send nothing more, and take back what has not left. Nothing is called any more."""
        if not self.closed:
            self._counting.stop()
            self._held.abandon()
            for sending in list(self._sends):
                sending.cancel()
            self._steps.clear()
            self.in_flight = 0
            self._settled.fire(None)

    async def _all_stored(self) -> None:
        while self._steps and not self.closed:
            await self._settled.new()

    async def _prepare(self, step: _Step) -> None:
        entries = step.entries
        assert entries is not None
        step.moving = moving = await self.preparation.prepare(self.where, entries)
        step.entries = None
        if moving.data and not self.topic.same_partitions:
            await self._until_room()
            step.divided = await self.preparation.divide(self.where, self.topic, moving)

    async def _send(self, step: _Step) -> None:
        moving = step.moving
        assert moving is not None
        if moving.data and self.topic.same_partitions:
            self._send_set(step, KeyedSet(self.where.partition, moving.data))
        elif moving.data:
            await self._send_divided(step, moving)
        if not self.closed:
            step.left -= 1
            self._settle()

    async def _send_divided(self, step: _Step, moving: MovingSet) -> None:
        """Send the parts of a set, with a bound of memory: few bytes may become gigabytes."""
        divided, step.divided = step.divided, None
        if divided is not None:
            for each in divided:
                self._send_set(step, each)
            return
        steps = self.preparation.dividing(self.where, self.topic, moving, partial(self._send_set, step))
        while await self.preparation.works.run(self._until_full(steps)):
            await self._until_room()

    def _until_full(self, steps: Steps[None]) -> Steps[bool]:
        """Take steps of a division; return whether more are left, where too much is sent and not stored."""
        for holds in steps:
            if not holds and self._is_full():
                return True
            yield holds
        return False

    async def _until_room(self) -> None:
        while self._is_full() and not self.closed:
            await self._settled.new()

    def _is_full(self) -> bool:
        return self.preparation.is_too_much(sum(self._sends.values()))

    def _send_set(self, step: _Step, part: KeyedSet) -> None:
        if self.closed:
            return
        step.left += 1
        sending = self.send(self.topic.target, part.partition, part.data)
        self._sends[sending] = len(part.data)
        sending.addCallbacks(self._stored, self._failed, callbackArgs=(step, sending), errbackArgs=(sending,))

    def _cannot_send(self, error: LogdError, is_sent_in_part: bool) -> None:
        """Report an error once what is before it is stored.

        Given up while they are in flight, these sets would be stored all the same, and sent again at each new
        beginning.
        """
        if is_sent_in_part:
            self.failed(self, error)
        else:
            self.drained().addCallback(lambda _: None if self.closed else self.failed(self, error))

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
        if self._steps and not self._steps[0].left and not self.closed:
            self._counting.start(self._count_stored())
        self._settled.fire(None)

    async def _count_stored(self) -> None:
        try:
            await self._count_in_order()
        except CancelledError:
            raise
        except Exception as error:
            if not self.closed:
                self._log.failure("a bug in the count of a partition's copies, which begin again")
                self.failed(self, LogdError(str(error)))

    async def _count_in_order(self) -> None:
        steps = self._steps
        while steps and not steps[0].left and not self.closed:
            step = steps[0]
            assert step.moving is not None
            step.left = 1
            await self.preparation.count(self.where, self.topic, step.moving, step.copied)
            steps.popleft()
            self.in_flight -= step.size
            if step.chunk.losses:
                self._jumps.popleft()
                self.done = step.moving.end
            else:  # the chunk may begin before ``done``, which may be inside an entry
                self.done = max(self.done, step.moving.end)
            self.positions.update((partition, place.next_position) for partition, place in step.copied.items())
            self.stored(self, step.chunk, step.moving)
            self._settled.fire(None)


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
