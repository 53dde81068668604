"""The schedule for writing a topic's stored ends: soon after the topic begins to grow, then once a minute.

A rolled segment does not wait for the minute, so that the stored end is never far behind a log that grows fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define, field

from logd.interfaces import Clock, Timer
from logd.log.partition import PartitionLog

#: Seconds from the first flush of an idle topic to the write, so that flushes that follow at once share the write.
LEAD_SECONDS = 1.0
#: Seconds between two writes of a topic that keeps growing.
WRITE_SECONDS = 60.0


@define(eq=False)
class EndsSchedule:
    """The topics that have grown, and two timers. For the owner thread only."""

    _clock: Clock
    _logs_of: Callable[[str], Iterable[PartitionLog]]
    #: ``rolled(log)``: True if a segment of the log was rolled since its stored end was written.
    _has_rolled: Callable[[PartitionLog], bool]
    #: Begins to write the given topics; returns those that can be written.
    _write: Callable[[Iterable[str]], Iterable[str]]
    #: Topics that have grown since they were written, each with the number of its last flush.
    _grown: dict[str, int] = field(factory=dict, init=False)
    _flushes: int = field(default=0, init=False)
    #: Topics whose writes are under way, each with the number of the last flush that the write includes.
    _writing: dict[str, int | None] = field(factory=dict, init=False)
    #: Topics written in this minute, and those of them whose write failed.
    _recent: set[str] = field(factory=set, init=False)
    _failed: set[str] = field(factory=set, init=False)
    _lead: Timer | None = field(default=None, init=False)
    _minute: Timer | None = field(default=None, init=False)
    _stopping: bool = field(default=False, init=False)

    @property
    def grown(self) -> list[str]:
        """The topics that have grown since they were written, including those whose writes are under way."""
        return sorted(self._grown)

    def grew(self, log: PartitionLog) -> None:
        """Note that more of a log is flushed."""
        self._flushes += 1
        self._grown[log.topic] = self._flushes
        if self._lead is None and not self._stopping and self._is_due(log):
            self._lead = self._clock.callLater(LEAD_SECONDS, self._lead_over)

    def forget(self, topic: str) -> None:
        """Note that there is nothing to write for a topic any more."""
        self._grown.pop(topic, None)

    def begin(self, topic: str) -> None:
        """Note that a write begins, which includes everything flushed so far."""
        self._writing[topic] = self._grown.get(topic)

    def end(self, topic: str, written: bool) -> None:
        """Note the outcome of a write. A topic that has grown meanwhile, or was not written, stays in ``grown``."""
        told = self._writing.pop(topic)
        if written and told is not None and self._grown.get(topic) == told:
            del self._grown[topic]

    def failed(self, topic: str) -> None:
        """Have a topic written again at the end of the minute."""
        self._failed.add(topic)
        self._begin_minute()  # the minute of the write may be over

    def halt(self) -> None:
        """Stop beginning writes."""
        self._stopping = True
        for timer in (self._lead, self._minute):
            if timer is not None:
                timer.cancel()
        self._lead = self._minute = None

    def _is_due(self, log: PartitionLog) -> bool:
        """Return True if the topic's write need not wait for the minute: it was idle before, or a segment is rolled."""
        return log.topic not in self._recent or (log.topic not in self._failed and self._has_rolled(log))

    def _lead_over(self) -> None:
        self._lead = None
        self._recent.update(
            self._write([each for each in self._untold() if any(map(self._is_due, self._logs_of(each)))])
        )
        self._begin_minute()

    def _untold(self) -> list[str]:
        """Return the topics that have grown by more than a write under way includes."""
        return [topic for topic, flush in self._grown.items() if self._writing.get(topic) != flush]

    def _begin_minute(self) -> None:
        if self._minute is None and not self._stopping:
            self._minute = self._clock.callLater(WRITE_SECONDS, self._minute_over)

    def _minute_over(self) -> None:
        self._minute = None
        self._recent.clear()
        self._failed.clear()
        if self._grown:
            self._begin_minute()
            self._recent.update(self._write(self._untold()))
