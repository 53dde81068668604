"""Log lines about partitions that could not be read for a few seconds, and about their return."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import define
from twisted.logger import Logger

from logd.client.cluster.broker_outages import WARN_SECONDS
from logd.clientcore.partition_numbers import in_words
from logd.interfaces import Clock, Timer
from logd.topic import TopicPartition

#: Seconds for which returns are gathered, so that many partitions make one line.
GATHER_SECONDS = 1.0


@define
class _Trouble:
    """The outage of one partition: its begin, the latest reason, and whether it was logged."""

    since: float
    reason: str
    told: bool = False


class UnavailablePartitions:
    """The unavailable partitions of one consumer. Brokers that are away are another matter (see broker_outages.py)."""

    _log = Logger()

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._troubles: dict[TopicPartition, _Trouble] = {}
        #: Partitions that can be read again, and whose return is not logged yet.
        self._returned: dict[TopicPartition, _Trouble] = {}
        self._timers: dict[str, Timer] = {}

    def __bool__(self) -> bool:
        """Return whether any partition is unavailable."""
        return bool(self._troubles)

    def noticed(self, where: TopicPartition, reason: str) -> None:
        """Note that a broker answered with an error; the log gives the latest reason."""
        found = self._troubles.get(where)
        if found is not None:
            found.reason = reason
            return
        back = self._returned.pop(where, None)
        if back is not None:  # it was back only for a moment: its return is not logged, and neither is this
            self._troubles[where] = back
            return
        self._troubles[where] = _Trouble(self._clock.seconds(), reason)
        self._later("told", WARN_SECONDS, self._tell)

    def over(self, where: TopicPartition) -> None:
        """Note that a partition was read."""
        found = self._troubles.pop(where, None)
        if found is not None and found.told:
            self._returned[where] = found
            self._later("returned", GATHER_SECONDS, self._tell_returned)

    def forget(self, where: TopicPartition) -> None:
        """Forget a partition that is not read any more."""
        self._troubles.pop(where, None)
        self._returned.pop(where, None)

    def close(self) -> None:
        """Stop logging."""
        self._troubles.clear()
        self._returned.clear()
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _later(self, name: str, seconds: float, call: Callable[[], None]) -> None:
        if name not in self._timers:
            self._timers[name] = self._clock.callLater(seconds, self._due, name, call)

    def _due(self, name: str, call: Callable[[], None]) -> None:
        del self._timers[name]
        call()

    def _tell(self) -> None:
        now = self._clock.seconds()
        untold = {where: each for where, each in self._troubles.items() if not each.told}
        due = {where: each for where, each in untold.items() if now - each.since >= WARN_SECONDS}
        if due:
            first = next(iter(due.values()))
            for each in due.values():
                each.told = True
            self._log.warn(
                "cannot read {names} for {seconds:.0f} seconds now, still trying: {reason}",
                names=_names(due), seconds=now - first.since, reason=first.reason,
            )  # fmt: skip
        if len(due) < len(untold):
            oldest = min(each.since for where, each in untold.items() if where not in due)
            self._later("told", max(0.001, oldest + WARN_SECONDS - now), self._tell)

    def _tell_returned(self) -> None:
        returned, self._returned = self._returned, {}
        if returned:
            longest = self._clock.seconds() - min(each.since for each in returned.values())
            self._log.warn(
                "{names} can be read again, after {seconds:.0f} seconds", names=_names(returned), seconds=longest
            )


def _names(places: Iterable[TopicPartition]) -> str:
    """Return topics with their partitions as text."""
    by_topic: dict[str, list[int]] = {}
    for where in sorted(places):
        by_topic.setdefault(where.topic, []).append(where.partition)
    parts = []
    for topic, numbers in by_topic.items():
        plural = "s" if len(numbers) > 1 else ""
        parts.append(f"topic {topic!r}, partition{plural} {in_words(numbers)}")
    return "; ".join(parts)
