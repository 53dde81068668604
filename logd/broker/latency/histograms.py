"""Latencies as histograms with fixed bounds: an observation costs a search among a few numbers."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import Protocol

from attrs import define, field

from logd.log.visibility.visible_times import VisibleTimes

#: Seconds; the last bucket of a histogram has what is above.
BOUNDS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
#: Kinds of requests, and topics, that are told apart.
MOST_KINDS = 100
MOST_TOPICS = 100
#: The name of all other topics together.
OTHER_TOPICS = ""


class DeliveredLog(Protocol):
    """A log that a consumer has read up to its end, by which a delivery is measured."""

    topic: str
    times: VisibleTimes

    @property
    def wall(self) -> Callable[[], float]:
        """Returns the time of day, in seconds since the epoch."""
        ...


@define(eq=False)
class Histogram:
    """The observations so far: their number in each bucket, and their sum in seconds."""

    counts: list[int] = field(factory=lambda: [0] * (len(BOUNDS) + 1), init=False)
    sum: float = field(default=0.0, init=False)

    def observe(self, seconds: float) -> None:
        """Count one observation."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.sum += seconds

    def cumulated(self) -> list[tuple[str, float]]:
        """Return (upper bound, number of observations up to it), as Prometheus wants them."""
        total = 0
        rows = []
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), list(self.counts), strict=True):
            total += count
            rows.append((bound, float(total)))
        return rows


@define(eq=False)
class Latencies:
    """The histograms of one broker. Requests that wait on purpose, such as fetches at the end of a log, count whole."""

    #: From a request's arrival to its answer, by protocol and request.
    requests: dict[tuple[str, str], Histogram] = field(factory=dict, init=False)
    #: From an append to the moment when readers see it.
    visible: Histogram = field(factory=Histogram, init=False)
    #: One sync of the disk.
    syncs: Histogram = field(factory=Histogram, init=False)
    #: From a message's time to its delivery to a consumer that has read everything before, by topic.
    deliveries: dict[str, Histogram] = field(factory=dict, init=False)

    def of(self, protocol: str, request: str) -> Histogram:
        """Return the histogram of a kind of request."""
        found = self.requests.get((protocol, request))
        if found is None:
            if len(self.requests) >= MOST_KINDS:
                request = "other"
            found = self.requests.setdefault((protocol, request), Histogram())
        return found

    def delivered(self, log: DeliveredLog) -> None:
        """Observe that the newest message of a log is given to a consumer. Clocks may differ: no time is below 0."""
        newest = log.times.newest_ms
        if newest < 0:
            return
        found = self.deliveries.get(log.topic)
        if found is None:
            topic = log.topic if len(self.deliveries) < MOST_TOPICS else OTHER_TOPICS
            found = self.deliveries.setdefault(topic, Histogram())
        found.observe(max(log.wall() - newest / 1000, 0.0))
