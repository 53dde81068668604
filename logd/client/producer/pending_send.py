"""One call of ``send``: its Deferred, and the parts that are not settled yet."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logd.protocol.message import Message

if TYPE_CHECKING:  # makes sends
    from logd.client.producer.producer import Producer


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
        *("key", "messages", "owner", "partition", "sequence", "topic"),
    )

    def __init__(
        self,
        topic: str,
        messages: Sequence[Message],
        partition: int | None,
        key: bytes | None,
        codec: str,
        deadline: float,
    ) -> None:
        self.topic = topic
        #: The messages until they are encoded; empty afterwards.
        self.messages: Sequence[Message] = messages
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
        #: Called once when the send has finished.
        self.owner: Producer | None = None
        #: True when a flush waits for the send, which then must not linger.
        self.hurry = False
        #: The number of the send in the order of all sends.
        self.sequence = 0
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
        owner, self.owner = self.owner, None
        if owner is not None:  # last: when a flush fires, every earlier send has been told
            owner.finished(self)

    def _cancel(self, _deferred: Deferred[Sent]) -> None:
        self.deferred = None
        holders, self.holders = self.holders, ()
        for holder in holders:
            holder.withdraw(self)
