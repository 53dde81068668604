"""The errors of the searches for topics, and a log line about topics that were refused for a few seconds."""

from __future__ import annotations

import math

from attrs import define, field
from twisted.logger import Logger

from logd.client.cluster.broker_outages import WARN_SECONDS
from logd.errors import BrokerUnavailable
from logd.interfaces import Clock
from logd.plurals import counted

#: The most topics that a line names.
MOST_NAMED = 3


@define
class _Failing:
    """One search: its latest error, the time of the first refusal (inf: none yet), and whether it was logged."""

    reason: Exception
    since: float = math.inf
    told: bool = False


@define(eq=False)
class TopicSearches:
    """The searches of one producer that have failed so far. Brokers that are away have lines of their own."""

    _log = Logger()

    _clock: Clock
    _failing: dict[str, _Failing] = field(factory=dict, init=False)

    def reason(self, topic: str) -> Exception | None:
        """Return the error of the latest attempt to find a topic."""
        found = self._failing.get(topic)
        return None if found is None else found.reason

    def failed(self, topic: str, error: Exception) -> None:
        """Note a failed attempt, which will be repeated."""
        found = self._failing.setdefault(topic, _Failing(error))
        found.reason = error
        if not isinstance(error, BrokerUnavailable):
            found.since = min(found.since, self._clock.seconds())

    def ended(self, topic: str) -> None:
        """Forget a search: the topic is found, or nothing waits for it any more."""
        self._failing.pop(topic, None)

    def tell(self) -> None:
        """Log the topics that have been refused for a while, in one line: many often are for one reason."""
        now = self._clock.seconds()
        waiting = {topic: each for topic, each in self._failing.items() if not each.told}
        due = {topic: each for topic, each in waiting.items() if now - each.since >= WARN_SECONDS}
        if not due:
            return
        for each in due.values():
            each.told = True
        longest = next(iter(due.values()))
        names, more = ", ".join(map(repr, list(due)[:MOST_NAMED])), len(due) - MOST_NAMED
        self._log.warn(
            "cannot send to topic{s} {names} for {seconds:.0f} seconds now, still trying: {reason}",
            s="s" if len(due) > 1 else "",
            names=names + (f" and {counted(more, 'other')}" if more > 0 else ""),
            seconds=now - longest.since,
            reason=longest.reason,
        )
