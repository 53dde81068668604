"""Prometheus metrics of the lag of groups, read anew now and then while somebody scrapes.

A scrape shows what was last read, since reading asks the coordination tree and the leaders of partitions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from attrs import define, field
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.errors import LogdError
from logd.web.console.rows import GroupRow

#: Groups that have labels of their own: those with the largest lag; all others are together in group "".
MOST_GROUPS = 200
#: Seconds between two readings, and from the last scrape until nothing is read any more.
READ_SECONDS = 15.0
SCRAPED_SECONDS = 300.0


@define(eq=False)
class GroupLagMetrics(Collector):
    """Collects the lag of the groups of a cluster; each broker with HTTP pages shows the same."""

    _log = Logger()

    _clock: Any
    #: Reads the rows of all groups.
    _read: Callable[[], Any]
    _rows: Sequence[GroupRow] = field(default=(), init=False)
    #: The time of the last scrape, by the clock; another thread sets it.
    _scraped: float | None = field(default=None, init=False)
    _timer: Any = field(default=None, init=False)

    def start(self) -> None:
        """Begin to look whether somebody scrapes."""
        self._timer = self._clock.callLater(READ_SECONDS, self._look)

    def stop(self) -> None:
        """Read no more."""
        if self._timer is not None and self._timer.active():
            self._timer.cancel()

    def describe(self) -> Iterator[Metric]:
        """Yield no metric, so that registering reads nothing."""
        yield from ()

    def collect(self) -> Iterator[Metric]:
        """Yield the lag of each group as last read."""
        self._scraped = self._clock.seconds()
        count = GaugeMetricFamily("logd_group_lag_bytes", "Bytes that a group has not handled.", labels=["group"])
        age = GaugeMetricFamily(
            "logd_group_lag_seconds", "Age of the first message that a group has not handled.", labels=["group"]
        )
        rows = sorted(self._rows, key=lambda row: -(row.lag_bytes or 0))
        for row in rows[:MOST_GROUPS]:
            if row.lag_bytes is not None:
                count.add_metric([row.name], row.lag_bytes)
            if row.lag_seconds is not None:
                age.add_metric([row.name], row.lag_seconds)
        rest = rows[MOST_GROUPS:]
        if rest:
            count.add_metric([""], sum(row.lag_bytes or 0 for row in rest))
            age.add_metric([""], max(row.lag_seconds or 0.0 for row in rest))
        yield from (count, age)

    def _look(self) -> None:
        if self._scraped is None or self._clock.seconds() - self._scraped > SCRAPED_SECONDS:
            self._rows = ()
            self.start()
            return
        reading = Deferred.fromCoroutine(self._read())
        reading.addCallback(self._take)
        reading.addErrback(self._failed)
        reading.addBoth(lambda _: self.start())

    def _take(self, rows: Sequence[GroupRow]) -> None:
        self._rows = rows

    def _failed(self, failure: Failure) -> None:
        self._rows = ()
        if not failure.check(LogdError):
            self._log.failure("the lag of groups could not be read", failure)
