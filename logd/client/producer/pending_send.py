"""One call of ``send``: its Deferred, and the parts that are not settled yet. Messages of ``publish`` that wait."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from twisted.internet.defer import CancelledError, Deferred
from twisted.python.failure import Failure

from logd.client.producer.buffer_pool import BufferWaiter
from logd.client.producer.formats import Record
from logd.client.producer.unfinished import Unfinished
from logd.deferreds.sleeping import sleep
from logd.interfaces import Clock
from logd.protocol.message import Message

if TYPE_CHECKING:
    from logd.client.producer.producer import Producer

#: The messages that are routed in one turn of the reactor: some 6 ms. 100,000 that wait take 0.6 s.
SLICE_MESSAGES = 1000


class Sent(NamedTuple):
    """The place of a stored set: the result of the Deferred of ``send``.

    ``first_id`` is the id of its first message and ``next_position`` the position after its last; both are -1 for
    acks=0, where the broker does not answer. A set that was compressed into one wrapper with others has the wrapper's.
    When a set was split over several partitions or batches, ``parts`` names each; the other fields are those of the
    first part that is stored.

    ``skipped`` messages of the set, with ``skipped_bytes`` in keys and values, are not stored: the broker refused them
    as too large, and ``on_too_large`` is "skip".
    """

    topic: str
    partition: int
    first_id: int = -1
    next_position: int = -1
    parts: tuple[Sent, ...] = ()
    skipped: int = 0
    skipped_bytes: int = 0


class Holder(Protocol):
    """A holder of sends that wait: the router, a partition's queue, or a wait for memory."""

    def withdraw(self, send: PendingSend) -> None:
        """Take out a cancelled send, as far as that is still possible, and end it."""
        ...


class PendingSend:
    """A set between ``send`` and its end. Finishes exactly once: fired, failed or cancelled."""

    __slots__ = (
        *("_failure", "_missing", "_parts", "codec", "deadline", "deferred", "held", "holders", "hurry"),
        *("key", "message_set", "messages", "partition", "topic", "unfinished"),
    )

    def __init__(
        self,
        topic: str,
        messages: Sequence[Message],
        partition: int | None,
        key: bytes | None,
        codec: str,
        deadline: float,
        message_set: bytes = b"",
    ) -> None:
        self.topic = topic
        #: The messages until they are encoded; empty afterwards.
        self.messages: Sequence[Message] = messages
        #: A set that came encoded, in place of messages, until it is in a batch.
        self.message_set = message_set
        self.partition = partition
        self.key = key
        #: Compression of this set alone; "none" leaves it to the producer's setting.
        self.codec = codec
        #: The time at which to give up (clock's seconds).
        self.deadline = deadline
        #: Bytes of the producer's buffer pool that the set holds before it is in batches.
        self.held = 0
        #: The present holders of the set or of its parts. No closures: hundreds of thousands of sends may wait, and
        #: each live object costs the garbage collector.
        self.holders: Sequence[Holder] = ()
        #: Told once when the send has finished.
        self.unfinished: Unfinished | None = None
        #: True when a flush waits for the send, which then must not linger.
        self.hurry = False
        self._missing = 1
        self._parts: list[Sent] | None = None
        self._failure: Exception | None = None
        self.deferred: Deferred[Sent] | None = Deferred(self._cancel)

    def expect(self, parts: int) -> None:
        """Set the number of parts of the send; each ends by ``part_sent`` or ``part_failed``."""
        self._missing = parts

    def divide(self) -> None:
        """Count one more part: one has become two."""
        self._missing += 1

    def part_sent(self, sent: Sent) -> None:
        """Settle one part, which is stored."""
        if self._missing == 1 and self._parts is None and self._failure is None:
            self._end(sent)
            return
        if self._parts is None:
            self._parts = []
        self._parts.append(sent)
        self._count()

    def part_failed(self, error: Exception) -> None:
        """Settle one part, which will not be stored. The Deferred fails with the first error when all have ended."""
        self._failure = self._failure or error
        self._count()

    def fail(self, error: Exception) -> None:
        """Fail the whole send."""
        self._missing = 1
        self.part_failed(error)

    def _count(self) -> None:
        self._missing -= 1
        if self._missing:
            return
        parts = self._parts or []
        if self._failure is not None:
            self._end(Failure(self._failure))
        else:
            stored = [part for part in parts if not part.skipped]
            skipped = sum(part.skipped for part in parts)
            skipped_bytes = sum(part.skipped_bytes for part in parts)
            first = stored[0] if stored else parts[0]
            self._end(first._replace(parts=tuple(stored), skipped=skipped, skipped_bytes=skipped_bytes))

    def _end(self, result: Sent | Failure) -> None:
        self._missing = 0
        deferred, self.deferred = self.deferred, None
        if deferred is not None:
            deferred.callback(result)
        unfinished, self.unfinished = self.unfinished, None
        if unfinished is not None:  # last: when a flush fires, every earlier send has been told
            unfinished.end(self)

    def _cancel(self, _deferred: Deferred[Sent]) -> None:
        self.deferred = None
        holders, self.holders = self.holders, ()
        for holder in holders:
            holder.withdraw(self)


class Published(NamedTuple):
    """A published message: ``size`` in bytes as the format counts them."""

    record: Record
    size: int
    partition: int | None

    @property
    def key(self) -> bytes | None:
        """Return the message's key."""
        return None if type(self.record) is bytes else self.record.key  # type: ignore[union-attr]


class HeldMessages:
    """Published messages of one topic that are in no batch yet: their topic is not known, or sends before them wait.

    They end here once they are given their partitions, or fail.
    """

    __slots__ = ("deadline", "held", "holders", "hurry", "messages", "topic", "unfinished")

    def __init__(self, topic: str, unfinished: Unfinished, deadline: float) -> None:
        self.topic = topic
        self.unfinished = unfinished
        #: The deadline of the first message (clock's seconds).
        self.deadline = deadline
        #: Bytes of the buffer pool that they hold.
        self.held = 0
        self.messages: list[Published] = []
        self.hurry = False
        self.holders: Sequence[object] = ()
        unfinished.begin(self)

    @property
    def is_full(self) -> bool:
        """Return whether they are as many as are routed in one turn."""
        return len(self.messages) >= SLICE_MESSAGES

    def fail(self, error: Exception) -> None:
        """Report that none of them will be delivered."""
        count, self.messages = len(self.messages), []
        self.unfinished.failed(self.topic, count, error)
        self.unfinished.end(self)


class WaitingSend:
    """The holder of a send while it waits for room in the buffer pool."""

    def __init__(self, producer: Producer, send: PendingSend) -> None:
        self._producer = producer
        self._send = send
        self.place: BufferWaiter | None = None

    def admit(self) -> None:
        """Submit the send, for which there is room now."""
        self._send.holders = ()
        self._producer.admitted(self._send)

    def withdraw(self, send: PendingSend) -> None:
        """Give up the place; see Holder."""
        send.fail(CancelledError())
        if self.place is not None:
            self._producer.leave(self.place)


async def in_slices(
    clock: Clock,
    held: MutableMapping[PendingSend | HeldMessages, None],
    work: Callable[[PendingSend | HeldMessages], None],
) -> None:
    """Take out what is held now, in order, and call ``work`` with each; rest until the next turn after each slice.

    What ends meanwhile is left out, and what comes meanwhile stays.
    """
    left = SLICE_MESSAGES
    # Not the first each time: to find it, a dictionary looks through all that were deleted before it.
    for send in tuple(held):
        if left <= 0:
            await sleep(clock, 0.0)
            left = SLICE_MESSAGES
        if send in held:
            del held[send]
            left -= max(len(send.messages), 1)
            work(send)
