"""Limits what a leader sends to replicas that are not in sync, so that producers keep their latency meanwhile."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import define, field

from logd.interfaces import Clock
from logd.net.limits.token_bucket import TokenBucket

#: Seconds' worth of a rate that may be sent at once.
BURST_SECONDS = 0.25
#: A shorter wait is none: it might not move a clock at all.
LEAST_SECONDS = 0.001


@define(eq=False)
class CatchUpThrottle:
    """The quotas of one broker: one for all that it leads, and one for each topic that is reassigned with a rate."""

    _clock: Clock
    #: Bytes a second, None without a limit.
    _rate: int | None
    _all: TokenBucket | None = field(default=None, init=False)
    _topics: dict[str, TokenBucket] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        if self._rate is not None:
            self._all = TokenBucket(self._clock, self._rate, BURST_SECONDS)

    def limit_topics(self, rates: Mapping[str, int]) -> None:
        """Take the rates of the topics that have one, in bytes a second; all other topics have none."""
        for topic in self._topics.keys() - rates.keys():
            del self._topics[topic]
        for topic, rate in rates.items():
            if topic in self._topics:
                self._topics[topic].change_rate(rate)
            else:
                self._topics[topic] = TokenBucket(self._clock, rate, BURST_SECONDS)

    def delay(self, topic: str) -> float:
        """Return the seconds until bytes of a topic may be sent to a replica that is not in sync; 0: now."""
        debt = max((bucket.debt_seconds() for bucket in self._of(topic)), default=0.0)
        return debt if debt >= LEAST_SECONDS else 0.0

    def sent(self, topic: str, count: int) -> None:
        """Note that bytes are sent to such a replica."""
        for bucket in self._of(topic):
            bucket.take(count)

    def _of(self, topic: str) -> list[TokenBucket]:
        return [each for each in (self._all, self._topics.get(topic)) if each is not None]
