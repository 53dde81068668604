"""The count of what producers store that count nothing themselves: by the broker, from the heads of their batches."""

from __future__ import annotations

from attrs import define

from logd.audit.counter import WindowCounter
from logd.audit.event import AUDIT_TOPIC, AuditEvent, Reporter, Tier
from logd.audit.spans import Span
from logd.audit.tallies import Buffer, tally_heads
from logd.audit.windows import DEFAULT_WIDTH


@define(eq=False)
class ForeignProducers:
    """Counts, for one broker, the sets of clients of other systems, all origins together (ALL_ORIGINS).

    For the listener that takes these sets; it must not count the sets of audited producers, which count themselves.
    Publish what ``take_events`` returns, as AuditPublisher does. Where no audit is wanted, there is no such object.
    """

    counter: WindowCounter

    @classmethod
    def of(cls, reporter: Reporter, cluster: str, width: int = DEFAULT_WIDTH) -> ForeignProducers:
        """Return the counts of the broker ``reporter``, by windows of ``width`` ms."""
        return cls(WindowCounter(Tier.PRODUCED, reporter, width, cluster=cluster))

    def stored(self, topic: str, partition: int, first_id: int, message_set: Buffer, now: int) -> None:
        """Count a set that is acknowledged; ``first_id``: where it begins in the log. ``now``: in ms."""
        if topic == AUDIT_TOPIC:
            return
        span = Span(partition, first_id, first_id + len(message_set) - 1)
        for time, origin, messages, size in tally_heads(message_set, self.counter.width):
            self.counter.add(topic, time, origin, messages, size, now, span)

    def take_events(self, now: int, *, end: bool = False) -> list[AuditEvent]:
        """Return the events that are due; see WindowCounter."""
        return self.counter.take_events(now, end=end)
