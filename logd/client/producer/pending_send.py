"""One call of ``send``: its Deferred, and what is still missing for it to fire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure

from logd.protocol.message import Message


class Sent(NamedTuple):
    """Where a set is now: what the Deferred of ``send`` fires with.

    ``first_id`` is the id of its first message and ``next_id`` the position after its last, in bytes; -1 where the
    broker says nothing (acks=0). A set that was compressed into one wrapper with others has that wrapper's. When a
    set was split over several partitions or batches, ``parts`` names each; the other fields are those of the first
    part that is stored.

    ``skipped`` of its messages, of ``skipped_bytes`` in keys and values, are not stored: the broker refused them as too
    large, and ``on_too_large`` is "skip".
    """

    topic: str
    partition: int
    first_id: int = -1
    next_id: int = -1
    parts: tuple[Sent, ...] = ()
    skipped: int = 0
    skipped_bytes: int = 0


class Holder(Protocol):
    """Where a send waits."""

    def withdraw(self, send: PendingSend) -> None:
        """It was cancelled: take it out, as far as that is still possible, and end it."""
        ...


class SendOwner(Protocol):
    """Who made a send."""

    def finished(self, send: PendingSend) -> None:
        """It has ended."""
        ...


class PendingSend:
    """A set between ``send`` and its end. Finished exactly once: fired, failed or cancelled."""

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
        #: What holds it at the moment, in full or in part. No closures: hundreds of thousands may wait at a time, and
        #: each object that lives costs the garbage collector.
        self.holders: Sequence[Holder] = ()
        #: Told once when it is finished.
        self.owner: SendOwner | None = None
        #: Whether a flush waits for it, so that it must not linger.
        self.hurry = False
        #: Its number in the order of all sends.
        self.sequence = 0
        self._missing = 1
        self._parts: list[Sent] | None = None
        self._failure: Exception | None = None
        self.deferred: Deferred[Sent] | None = Deferred(self._cancel)

    def expect(self, parts: int) -> None:
        """It has become this many parts, each of which ends by ``part_sent`` or ``part_failed``."""
        self._missing = parts

    def divide(self) -> None:
        """One part has become two."""
        self._missing += 1

    def part_sent(self, sent: Sent) -> None:
        """One part is where it should be."""
        if self._missing == 1 and self._parts is None and self._failure is None:
            self._end(sent)
            return
        if self._parts is None:
            self._parts = []
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
        if owner is not None:  # last: when a flush fires, every send before it has been told
            owner.finished(self)

    def _cancel(self, _deferred: Deferred[Sent]) -> None:
        self.deferred = None
        holders, self.holders = self.holders, ()
        for holder in holders:
            holder.withdraw(self)
