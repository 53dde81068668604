"""The audit of a mirror: counts what the target has stored, and holds commits back until the counts are published."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from socket import gethostname

from twisted.internet import defer
from twisted.internet.defer import CancelledError, Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.audit.counter import WindowCounter
from logd.audit.event import AUDIT_TOPIC, Tier
from logd.audit.spans import Span
from logd.audit.tallies import WindowSums, WindowTally, sum_in_steps, tally_few
from logd.client.audit.publisher import AuditPublisher, new_reporter
from logd.client.producer.pending_send import Sent
from logd.deferreds.timeouts import with_timeout
from logd.deferreds.waiting import WaitingDeferreds
from logd.interfaces import Clock
from logd.mirror.cluster_access import ClusterAccess
from logd.mirror.cluster_search import tell_brokers
from logd.mirror.sets.whole_entries import MovingSet
from logd.mirror.settings import MirrorSettings
from logd.mirror.target_topics import MirroredTopic
from logd.protocol.message import Message
from logd.protocol.slices import Bounds, Steps
from logd.topic import TopicPartition

#: Seconds for which one commit waits for the counts; without them it leaves out their work.
REPORT_SECONDS = 5.0
#: Seconds for which commits wait for counts that cannot be published. Then positions are committed without
#: them: a mirror that is killed before its counts are published leaves windows that look incomplete, but one that never
#: committed would mirror everything again.
PATIENCE = 60.0
#: The most windows of one set whose counts are held until the target has stored it. A set of more is looked at again
#: then: messages with any times may be in hundreds of thousands.
MOST_HELD_WINDOWS = 500
#: Windows that are counted before others have their turn: 10 us each.
STEP_WINDOWS = 200
#: Windows beyond the most that are counted, which are published together before all of a set are counted.
MOST_SURPLUS = 1000


class MirrorAudit:
    """Counts the messages of one mirror, in the tier mirrored, by the heads of their entries.

    The counts are published before the positions are committed up to which they go. So a mirror that is killed leaves
    no work that is committed and not counted: its successor mirrors the rest again, and counts it.
    """

    _log = Logger()

    def __init__(
        self,
        clock: Clock,
        settings: MirrorSettings,
        source: ClusterAccess,
        target: str,
        time_ms: Callable[[], int],
    ) -> None:
        """``target`` is the uuid of that cluster; the counts are published on the source."""
        #: Sends to the source's topic ``_audit``.
        self.producer = source.producer(acks=-1)
        self._source = source
        self._clock = clock
        self._time_ms = time_ms
        self._width = round(settings.audit_window * 1000)
        self._copies: dict[str, str] = {}
        self._counter = WindowCounter(
            Tier.MIRRORED,
            new_reporter(settings.server or gethostname()),
            self._width,
            opens=False,
            source=source.uuid,
            copies=self._copies,
        )
        self._publisher = AuditPublisher(clock, self._counter, self._publish, time_ms, lambda: target)
        #: For each partition, what marks its work as handled: for the next publication, and for the one under way.
        self._waiting: dict[TopicPartition, Callable[[], None]] = {}
        self._taken: dict[TopicPartition, Callable[[], None]] = {}
        self._publishing: Deferred[None] | None = None
        #: Those who wait for its end.
        self._ended: WaitingDeferreds[None] = WaitingDeferreds()
        #: When the publication under way began, in seconds of the clock.
        self._since = 0.0
        #: The beginnings of gaps that were passed and are in no count yet, by partition.
        self._passed: dict[TopicPartition, tuple[int, int]] = {}

    def tally(self, topic: str, data: bytes, bounds: Bounds) -> Steps[Sequence[WindowTally] | None]:
        """Return the counts of a set of the source's topic, in steps; None for many windows, which ``count`` finds.

        Its wrappers are opened within ``bounds``.
        """
        if topic == AUDIT_TOPIC:
            return ()
        return (yield from tally_few(data, self._width, MOST_HELD_WINDOWS, bounds))

    def count(
        self,
        topic: MirroredTopic,
        where: TopicPartition,
        moving: MovingSet,
        copied: Mapping[int, tuple[int, int]],
        bounds: Bounds,
    ) -> Steps[None]:
        """Count a set, with its tallies, that the target has stored, in steps.

        ``copied``: first and next position of the copies, by partition of the target.
        """
        if where.topic == AUDIT_TOPIC:
            return
        begin, end = self._passed.pop(where, (moving.start, moving.start))
        if end != moving.start:
            begin = moving.start
        if not moving.data:
            self._passed[where] = begin, moving.end
            return
        if topic.target != topic.source:
            self._copies[topic.source] = topic.target
        span = Span(where.partition, begin, moving.end - 1)
        spans = [Span(partition, first, behind - 1) for partition, (first, behind) in copied.items()]
        if moving.tallies is not None:
            yield from self._add(where.topic, moving.tallies, span, spans, False)
        else:
            found = WindowSums(self._width)
            for holds in sum_in_steps(moving.data, found, bounds):
                yield from self._add(where.topic, found.take(), span, spans, holds)
                yield holds
            yield from self._add(where.topic, found.take(), span, spans, False)
        if self._counter.surplus:  # for which the next commit is too late, as it waits for the topic of the audit
            self._publisher.changed()

    def stored(self, where: TopicPartition, handled: Callable[[], None]) -> None:
        """Call ``handled`` once all that is counted of a partition is published."""
        if where.topic == AUDIT_TOPIC:
            handled()
        else:
            self._waiting[where] = handled

    async def report(self, seconds: float = REPORT_SECONDS) -> bool:
        """Publish the counts, mark their work as handled, and return True; False after some seconds. Never fails.

        Counts that come meanwhile are left for the next report.
        """
        late = self._clock.seconds() + seconds
        if self._publishing is not None and not await self._ended_within(seconds):
            return await self._not_in_time()
        if self._publishing is None:  # else another report has begun one, with all that this one waits for
            if not self._waiting:
                return True
            self._taken, self._waiting = self._waiting, {}
            self._since = self._clock.seconds()
            self._publishing = self._publisher.report()
            # It may have fired already, where there is nothing to publish, and is then no more under way.
            self._publishing.addCallbacks(self._published, self._not_published)
        if self._publishing is None or await self._ended_within(late - self._clock.seconds()):
            return True
        return await self._not_in_time()

    def forget(self, places: Iterable[TopicPartition]) -> None:
        """Mark nothing of these partitions any more: they are taken away, or read again from the last commit."""
        for where in places:
            self._waiting.pop(where, None)
            self._taken.pop(where, None)

    async def finish(self, seconds: float) -> None:
        """Publish the last counts, for some seconds at most, and disconnect. Never fails."""
        await self._publisher.finish_within(seconds)
        await self.producer.close(0.0)

    def _add(
        self, topic: str, tallies: Sequence[WindowTally], span: Span, copied: Sequence[Span], holds: bool
    ) -> Steps[None]:
        """Add tallies to the counts. ``holds``: yielded in between."""
        for begin in range(0, len(tallies), STEP_WINDOWS):
            if begin:
                yield holds
            now = self._time_ms()
            for time, origin, messages, size in tallies[begin : begin + STEP_WINDOWS]:
                self._counter.add(topic, time, origin, messages, size, now, span, copied)
            if self._counter.surplus >= MOST_SURPLUS:
                self._publisher.changed()

    def _publish(self, messages: Sequence[Message]) -> Deferred[Sent]:
        return self.producer.send(AUDIT_TOPIC, messages, key=messages[0].key)

    async def _ended_within(self, seconds: float) -> bool:
        try:
            await with_timeout(self._clock, max(0.0, seconds), self._ended.new())
        except defer.TimeoutError:
            return False
        return True

    def _published(self, _: object) -> None:
        self._publishing = None
        self._mark(self._taken)
        self._ended.fire(None)

    def _not_published(self, failure: Failure) -> None:
        self._publishing = None
        self._ended.fire(None)
        failure.trap(CancelledError)

    def _mark(self, places: dict[TopicPartition, Callable[[], None]]) -> None:
        while places:
            places.popitem()[1]()

    async def _not_in_time(self) -> bool:
        """Return whether positions are committed without the counts all the same."""
        await tell_brokers(self._source, self.producer)
        return self._lose_patience()

    def _lose_patience(self) -> bool:
        waited = self._clock.seconds() - self._since
        if waited < PATIENCE:
            return False
        self._log.error(
            "counts of mirrored messages could not be published to topic {topic} for {waited:.0f} s: positions are "
            "committed without them, and a mirror that is killed now leaves windows that look incomplete",
            topic=AUDIT_TOPIC, waited=waited,
        )  # fmt: skip
        self._mark(self._taken)
        self._mark(self._waiting)
        return True


def mirror_audit(
    settings: MirrorSettings,
    clock: Clock,
    source: ClusterAccess,
    target: str,
    time_ms: Callable[[], int],
) -> MirrorAudit | None:
    """Return the audit of a mirror with these settings; None if they ask for none."""
    return MirrorAudit(clock, settings, source, target, time_ms) if settings.audit else None
