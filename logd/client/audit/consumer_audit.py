"""The audit of one consumer: counts the messages that its streams have handed over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from socket import gethostname

from logd.audit.counter import WindowCounter
from logd.audit.event import AUDIT_TOPIC, Tier
from logd.audit.spans import Span
from logd.audit.tallies import BatchPlace, tally_read
from logd.client.audit.event_sender import EventSender
from logd.client.audit.publisher import AuditPublisher, new_reporter
from logd.client.audit.time_of_day import time_of_day
from logd.client.cluster.cluster import Cluster
from logd.client.settings import ConsumerSettings
from logd.protocol.message import Message

#: Seconds that a consumer which is closed waits for its last counts to be stored.
CLOSE_SECONDS = 5.0


class ConsumerAudit:
    """Counts the messages of one consumer, in the tier consumed by its group (\"\" without a group)."""

    def __init__(self, cluster: Cluster, settings: ConsumerSettings, group: str, time_ms: Callable[[], int]) -> None:
        self._width = round(settings.audit_window * 1000)
        self._time_ms = time_ms
        self._counter = WindowCounter(Tier.CONSUMED, new_reporter(settings.server or gethostname()), self._width, group)
        self._publisher = AuditPublisher(
            cluster.clock, self._counter, EventSender(cluster).send, time_ms, lambda: cluster.uuid
        )

    def count(self, messages: Sequence[Message], batches: Sequence[BatchPlace]) -> None:
        """Count messages of one partition, read from entries among which are these batches."""
        if not messages or messages[0].topic in (None, AUDIT_TOPIC):
            return
        topic = messages[0].topic or ""
        span = Span(messages[0].partition, messages[0].id, messages[-1].next_position - 1)
        now = self._time_ms()
        for time, origin, number, size in tally_read(messages, batches, self._width):
            self._counter.add(topic, time, origin, number, size, now, span)
        self._publisher.changed()

    async def finish(self) -> None:
        """Publish the last counts. Never fails."""
        await self._publisher.finish_within(CLOSE_SECONDS)


class StreamAudit:
    """Counts what one stream hands over: a batch once the next one is asked for, or the part that was taken of it."""

    def __init__(self, audit: ConsumerAudit) -> None:
        self._audit = audit
        self._messages: Sequence[Message] = ()
        self._batches: Sequence[BatchPlace] = ()

    def handed(self, messages: Sequence[Message], batches: Sequence[BatchPlace]) -> None:
        """Count the last batch, and remember this one, which is handed over now."""
        self.settle()
        self._messages, self._batches = tuple(messages), batches

    def settle(self, left: int = 0) -> None:
        """Count the last batch but for its last ``left`` messages, which were not taken."""
        messages, self._messages = self._messages, ()
        self._audit.count(messages[: len(messages) - left], self._batches)


def consumer_audit(
    cluster: Cluster, settings: ConsumerSettings, group: str, time_ms: Callable[[], int] = time_of_day
) -> ConsumerAudit | None:
    """Return the audit of a consumer with these settings; None if they ask for none."""
    return ConsumerAudit(cluster, settings, group, time_ms) if settings.audit else None
