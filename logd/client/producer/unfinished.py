"""The work of a producer that has not ended: what its flushes wait for, and the failures of published messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

from attrs import define, field
from twisted.internet.defer import Deferred, fail, succeed
from twisted.logger import Logger

from logd.client.audit.producer_audit import ProducerAudit
from logd.deferreds.waiting import WaitingDeferreds
from logd.errors import PublishFailed
from logd.plurals import counted

#: Sends of one message each beyond which there is no room for more: several batches are full by then, and each live
#: Deferred is looked at again and again by the garbage collector, which took three quarters of a send's time at 29,000.
MOST_SENDS = 4000
#: The bound is this many for each partition if that is more: over thousands of partitions, 4,000 sends are sets of one
#: or two messages, and a set costs client and broker far more than the garbage collector does.
SENDS_OF_PARTITION = 8
#: Those who wait for fewer sends go on at this share of the bound. One less would be the room of one answer: with a
#: message to a request a caller would wait, and be woken, for each message.
ENOUGH_SHARE = 7 / 8

#: Called with the topic, the number of messages that were not delivered, and the reason.
OnError = Callable[[str, int, Exception], None]


class UnfinishedItem(Protocol):
    """A send that is in no batch yet, or a batch."""

    def fail(self, error: Exception) -> None:
        """Report that it will not be delivered, and end."""
        ...


@define(eq=False)
class _Flush:
    """One call of ``flush``, and what it still waits for."""

    left: set[UnfinishedItem]
    waiting: Deferred[None]


@define(eq=False)
class Unfinished:
    """Sends that are in no batch yet, and batches. Each begins here and ends here once."""

    _log = Logger()

    #: The application's; None logs each failure.
    on_error: OnError | None = None
    #: The audit that counts the batches; None without the setting ``audit``.
    audit: ProducerAudit | None = field(default=None, init=False)
    #: In the order of their begin.
    items: dict[UnfinishedItem, None] = field(factory=dict, init=False)
    #: Sends of one message each that are in batches, and have not ended.
    sends: int = field(default=0, init=False)
    #: The number of them at which there is no room for more.
    most_sends: int = field(factory=lambda: MOST_SENDS, init=False)
    _partitions: int = field(default=0, init=False)
    _fewer: WaitingDeferreds[None] = field(factory=WaitingDeferreds, init=False)
    #: In the order of their calls.
    _flushes: dict[_Flush, None] = field(factory=dict, init=False)
    #: Published messages that have failed and that no flush has reported yet, and the first reason.
    _failed: int = field(default=0, init=False)
    _reason: Exception | None = field(default=None, init=False)

    def begin(self, item: UnfinishedItem) -> None:
        """Count an item."""
        self.items[item] = None

    def end(self, item: UnfinishedItem) -> None:
        """Stop counting an item, and fire the flushes for which it was the last."""
        self.items.pop(item, None)
        if self._flushes:
            self._change(item, ())

    def partition_added(self) -> None:
        """Count a partition to which messages go; sends to all of them share one bound."""
        self._partitions += 1
        self.most_sends = max(MOST_SENDS, SENDS_OF_PARTITION * self._partitions)

    def sends_ended(self, count: int) -> None:
        """Count sends of one message each no longer."""
        self.sends -= count
        if self._fewer and self.sends < ENOUGH_SHARE * self.most_sends:
            self._fewer.fire(None)

    @property
    def few_sends(self) -> bool:
        """Return whether there is room for a further send, as far as their number goes."""
        return self.sends < self.most_sends

    def fewer_sends(self) -> Deferred[None] | None:
        """Return a cancellable Deferred that fires once there are few enough; None if there are already."""
        return None if self.few_sends else self._fewer.new()

    def replace(self, item: UnfinishedItem, others: Iterable[UnfinishedItem]) -> None:
        """Have flushes that wait for an item wait for others instead, some of which may be known."""
        del self.items[item]
        others = tuple(others)
        self.items.update(dict.fromkeys(others))
        self._change(item, others)

    def flushed(self) -> Deferred[None]:
        """Return a cancellable Deferred that fires when all present items have ended.

        Fails with PublishFailed if published messages have failed that no earlier flush has reported.
        """
        if not self.items:
            error = self._failure()
            return succeed(None) if error is None else fail(error)
        waiting: Deferred[None] = Deferred(lambda _: self._flushes.pop(flush, None))
        flush = _Flush(set(self.items), waiting)
        self._flushes[flush] = None
        return waiting

    def failed(self, topic: str, count: int, error: Exception) -> None:
        """Report published messages that will not be delivered."""
        self._failed += count
        self._reason = self._reason or error
        self._tell(topic, count, error)

    def left_out(self, topic: str, error: Exception) -> None:
        """Report a published message that was left out as too large, by the setting on_too_large."""
        self._tell(topic, 1, error)

    def _tell(self, topic: str, count: int, error: Exception) -> None:
        if self.on_error is None:
            self._log.error(
                "{messages} published to topic {topic} will not be delivered: {error}",
                messages=counted(count, "message"), topic=topic, error=str(error),
            )  # fmt: skip
            return
        try:
            self.on_error(topic, count, error)
        except Exception:
            self._log.failure("on_error of a producer failed")

    def _change(self, item: UnfinishedItem, others: Iterable[UnfinishedItem]) -> None:
        done: list[_Flush] = []
        for flush in self._flushes:
            if item in flush.left:
                flush.left.discard(item)
                flush.left.update(others)
                if not flush.left:
                    done.append(flush)
        for flush in done:
            self._flushes.pop(flush, None)  # its caller may have been cancelled by one that was told before
            if not flush.waiting.called:
                error = self._failure()
                if error is None:
                    flush.waiting.callback(None)
                else:
                    flush.waiting.errback(error)

    def _failure(self) -> PublishFailed | None:
        reason, self._reason = self._reason, None
        if reason is None:
            return None
        count, self._failed = self._failed, 0
        error = PublishFailed(
            f"{counted(count, 'published message')} will not be delivered; the first reason: {reason}", count
        )
        error.__cause__ = reason
        return error
