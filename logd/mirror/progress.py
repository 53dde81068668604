"""The progress of a mirror: what it has copied, and how far each partition is behind."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping

from attrs import define, field, frozen
from twisted.internet.defer import CancelledError
from twisted.logger import Logger

from logd.client.consumer.group_stream import GroupStream
from logd.deferreds.background import Background
from logd.errors import LogdError
from logd.interfaces import Clock
from logd.topic import TopicPartition

_log = Logger()
#: The ends of a log that are remembered to know how long it is behind.
_MOST_SAMPLES = 10_000


@frozen
class CopyLag:
    """The lag of one partition's copy. ``messages`` is estimated by the mean size of those copied; None: not known."""

    where: TopicPartition
    bytes: int
    messages: int | None
    seconds: float
    #: The reason why the copy does not go on, or "".
    stalled: str = ""


@define
class PartitionProgress:
    """The copied part of one partition, and the end of its log."""

    #: The position on the source behind what is stored on the target; -1: not known.
    done: int = -1
    #: The end of the source's visible log; -1: not known.
    end: int = -1
    messages: int = 0
    bytes: int = 0
    gaps: int = 0
    #: Messages and bytes since the last pair of positions.
    since_pair: tuple[int, int] = (0, 0)
    stalled: str = ""
    #: When the log ended where, for the ends that are not reached: (seconds of the clock, end).
    _seen: deque[tuple[float, int]] = field(factory=deque)

    def ends_at(self, end: int, now: float) -> None:
        """Note that the source's visible log ended at ``end`` at time ``now``."""
        if end > self.end:
            self.end = end
            if len(self._seen) < _MOST_SAMPLES:
                self._seen.append((now, end))
        self._forget()

    def log_is_new(self) -> None:
        """Forget where the log ended: its topic was deleted and made again, and positions begin anew."""
        self.done = self.end = -1
        self._seen.clear()

    def waits(self, position: int, reason: str) -> None:
        """Note that nothing is copied from ``position`` on, -1 if that is not known, and why."""
        if self.done < 0:
            self.done = position
        self.stalled = reason

    def copied(self, done: int, messages: int, size: int, gaps: int) -> None:
        """Note that all before ``done`` is stored on the target."""
        self.done = max(self.done, done)
        self.messages += messages
        self.bytes += size
        self.gaps += gaps
        self.since_pair = self.since_pair[0] + messages, self.since_pair[1] + size
        self._forget()

    def lag(self, where: TopicPartition, now: float) -> CopyLag:
        """Return how far the copy is behind."""
        behind = max(0, self.end - self.done) if self.done >= 0 else 0
        messages = round(behind * self.messages / self.bytes) if self.bytes else None if behind else 0
        seconds = now - self._seen[0][0] if self._seen and behind else 0.0
        return CopyLag(where, behind, messages, seconds, self.stalled)

    def _forget(self) -> None:
        while self._seen and self._seen[0][1] <= self.done:
            self._seen.popleft()


@define
class ReadingState:
    """The reason why a mirror could not read its source, until it has read for a while."""

    #: Empty while it reads.
    failure: str = ""
    _stream: GroupStream | None = None

    def failed(self, error: Exception) -> None:
        """Note that reading has failed, and begins anew."""
        self.failure, self._stream = str(error), None

    def goes_on(self, stream: GroupStream) -> None:
        """Note that ``stream`` reads; one that is met for the second time has read for a while."""
        if stream is self._stream:
            self.failure = ""
        self._stream = stream


async def measure_ends(
    stream: GroupStream,
    progress: Mapping[TopicPartition, PartitionProgress],
    clock: Clock,
    background: Background,
) -> None:
    """Ask for the ends of the visible logs of a stream's partitions, and note them in ``progress``, which has any key.

    A topic that does not answer keeps the ends that are known. Runs in ``background``, whose stop ends it.
    """
    for topic in sorted({where.topic for where in stream.partitions()}):
        try:
            ends = await stream.end_positions(topic)
        except (LogdError, CancelledError) as error:
            if background.was_stopped:  # otherwise the stream was closed, to be made again
                raise
            _log.debug("the ends of topic {topic} are not known now: {error!r}", topic=topic, error=error)
            continue
        for partition, end in ends.items():
            progress[TopicPartition(topic, partition)].ends_at(end, clock.seconds())
