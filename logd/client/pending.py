"""One call of ``send``: its Deferred, and what is still missing for it to fire."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logd.protocol.message import Message


class Sent(NamedTuple):
    """Where a set is now: what the Deferred of ``send`` fires with.

    ``first_id`` is the id of its first message and ``next_id`` the position after its last, in bytes; -1 where the
    broker says nothing (acks=0). A set that was compressed into one wrapper with others has that wrapper's. When a
    set was split over several partitions or batches, ``parts`` names each; the other fields are those of the first
    part.
    """

    topic: str
    partition: int
    first_id: int = -1
    next_id: int = -1
    parts: tuple[Sent, ...] = ()


class PendingSend:
    """A set between ``send`` and its end. Finished exactly once: fired, failed or cancelled."""

    __slots__ = (
        "_failure", "_missing", "_parts", "cancelled", "codec", "deadline", "deferred", "finished", "held", "key",
        "messages", "partition", "topic", "withdraw",
    )  # fmt: skip

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
        #: The messages until they are encoded; empty from then on.
        self.messages: Sequence[Message] = messages
        self.partition = partition
        self.key = key
        #: Compression of this set alone; "none" leaves it to the producer's.
        self.codec = codec
        #: When to give up (clock's seconds).
        self.deadline = deadline
        #: Bytes of the producer's room that it holds before it is in batches.
        self.held = 0
        self.cancelled = False
        #: Takes it out of wherever it waits, as far as that is still possible.
        self.withdraw: Callable[[], None] | None = None
        #: Called once when it is finished.
        self.finished: Callable[[PendingSend], None] | None = None
        self._missing = 1
        self._parts: list[Sent] = []
        self._failure: Exception | None = None
        self.deferred: Deferred[Sent] | None = Deferred(self._cancel)

    def expect(self, parts: int) -> None:
        """It has become this many parts, each of which ends by ``part_sent`` or ``part_failed``."""
        self._missing = parts

    def part_sent(self, sent: Sent) -> None:
        """One part is where it should be."""
        self._parts.append(sent)
        self._count()

    def part_failed(self, error: Exception) -> None:
        """One part will never be; the first reason is what the Deferred fails with, once all parts have ended."""
        self._failure = self._failure or error
        self._count()

    def fail(self, error: Exception) -> None:
        """None of it will be."""
        self._missing = 1
        self.part_failed(error)

    def _count(self) -> None:
        self._missing -= 1
        if self._missing:
            return
        finished, self.finished = self.finished, None
        if finished is not None:
            finished(self)
        deferred, self.deferred = self.deferred, None
        if deferred is None:
            return
        if self._failure is not None:
            deferred.errback(Failure(self._failure))
        elif len(self._parts) == 1:
            deferred.callback(self._parts[0])
        else:
            parts = tuple(self._parts)
            deferred.callback(parts[0]._replace(parts=parts))

    def _cancel(self, _deferred: Deferred[Sent]) -> None:
        self.cancelled = True
        self.deferred = None
        withdraw, self.withdraw = self.withdraw, None
        if withdraw is not None:
            withdraw()
