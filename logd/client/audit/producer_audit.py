"""The audit of one producer: stamps its messages, and counts those that are acknowledged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from socket import gethostname

from logd.audit.counter import WindowCounter
from logd.audit.event import AUDIT_TOPIC, SERVER_HEADER, Tier
from logd.audit.spans import Span
from logd.audit.tallies import WindowTally, tally_messages, tally_set
from logd.audit.windows import window_of
from logd.client.audit.publisher import AuditPublisher, PublishEvents, new_reporter
from logd.client.cluster.cluster import Cluster
from logd.client.settings import ProducerSettings
from logd.clientcore.answers import is_final
from logd.interfaces import Clock
from logd.protocol import loops
from logd.protocol.batch_layout import BATCH, batch_head
from logd.protocol.entry import MAGIC_AT
from logd.protocol.message import Message

_new_tuple = tuple.__new__


class ProducerAudit:
    """Stamps and counts the messages of one producer.

    A message gets the present time and the header ``server``, if it does not have its own. It is counted once the
    broker has acknowledged it; messages that were sent and given up without an answer are counted as unsettled.
    """

    def __init__(
        self,
        clock: Clock,
        server: str,
        width: int,
        publish: PublishEvents,
        cluster: Callable[[], str],
        seal: Callable[[], None],
        time_ms: Callable[[], int],
    ) -> None:
        """``width``: of the windows, in ms. ``seal`` completes the open batches; it is called at each window's end."""
        self._headers = ((SERVER_HEADER, server.encode()),)
        self._width = width
        self._seal = seal
        self._time_ms = time_ms
        self._begin = self._end = 0
        self._counter = WindowCounter(Tier.PRODUCED, new_reporter(server), width)
        self._publisher = AuditPublisher(clock, self._counter, publish, time_ms, cluster)

    def stamp(self, record: bytes | Message, key: bytes | None = None) -> Message:
        """Return a message with time and server. ``key`` is that of a message given as bytes."""
        if type(record) is Message:  # by index: by name, or unpacked, this takes three times as long
            headers = record[3]
            if headers and record[2] is not None and headers[0][0] == SERVER_HEADER:
                return record  # it has both: its window is that of its own time, whatever the time is now
        now = self._time_ms()
        if not self._begin <= now < self._end:
            self._begin = window_of(now, self._width)
            self._end = self._begin + self._width
            self._seal()
        if isinstance(record, bytes):
            return _new_tuple(Message, (record, key, now, self._headers, -1, -1, None, -1))
        payload, own_key, time, headers, *_ = record
        if not headers:
            headers = self._headers
        elif headers[0][0] != SERVER_HEADER and all(name != SERVER_HEADER for name, _ in headers):
            headers = (*headers, *self._headers)
        elif time is not None:
            return record
        return _new_tuple(Message, (payload, own_key, now if time is None else time, headers, -1, -1, None, -1))

    def stamp_all(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages of one send with time and server.

        Those of one server that have both already, a common case, are not looked at one by one.
        """
        headers, least_time, _, _ = loops.summarize_messages(messages)
        if least_time >= 0 and any(name == SERVER_HEADER for name, _ in headers or ()):
            return messages
        return tuple(map(self.stamp, messages))

    def left(self, topic: str, records: Sequence[bytes | Message], data: bytes) -> Sequence[WindowTally]:
        """Count a batch that leaves for the first time; return its tallies, for ``settled``.

        ``records`` are its messages, all stamped, and ``data`` its bytes; without records the bytes are opened.
        """
        if topic == AUDIT_TOPIC:
            return ()
        if records:
            batch_time = batch_head(data).max_time if data[MAGIC_AT] == BATCH else None
            tallies = tally_messages(records, self._width, batch_time)  # type: ignore[arg-type]
        else:
            tallies = tally_set(data, self._width)
        now = self._time_ms()
        for tally in tallies:
            self._counter.sent(topic, tally.time, tally.origin, now)
        self._publisher.changed()
        return tallies

    def stored(
        self, topic: str, tallies: Sequence[WindowTally], partition: int, first_id: int, next_position: int
    ) -> None:
        """Count a batch that the broker has acknowledged."""
        now = self._time_ms()
        span = Span(partition, first_id, next_position - 1) if first_id >= 0 and partition >= 0 else None
        for time, origin, messages, size in tallies:
            self._counter.settled(topic, time)
            self._counter.add(topic, time, origin, messages, size, now, span)
        self._publisher.changed()

    def not_stored(self, topic: str, tallies: Sequence[WindowTally], error: Exception | None) -> None:
        """Count a batch that is given up, or sent in another form (None). It may be stored if no broker refused it."""
        now = self._time_ms()
        for time, origin, messages, _ in tallies:
            self._counter.settled(topic, time)
            if error is not None and not is_final(error):
                self._counter.unsettled(topic, time, origin, messages, now)
        self._publisher.changed()

    async def finish(self, seconds: float) -> None:
        """Publish the last counts, for at most some seconds. Never fails; see AuditPublisher.finish."""
        await self._publisher.finish_within(seconds)


def producer_audit(
    settings: ProducerSettings,
    clock: Clock,
    publish: PublishEvents,
    cluster: Cluster,
    seal: Callable[[], None],
    time_ms: Callable[[], int],
) -> ProducerAudit | None:
    """Return the audit of a producer with these settings; None if they ask for none."""
    if not settings.audit:
        return None
    width = round(settings.audit_window * 1000)
    return ProducerAudit(clock, settings.server or gethostname(), width, publish, lambda: cluster.uuid, seal, time_ms)
