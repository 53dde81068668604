"""The topics as clients are told of them at this moment: names, entries, and reasons not to use one."""

from __future__ import annotations

from attrs import define, field
from zope.interface import implementer

from logd.interfaces import ITopics
from logd.topic import TopicEntry


@implementer(ITopics)
@define(eq=False)
class TopicDirectory:
    """Read without waiting by everything that answers requests, written by the reconciler and by the administration."""

    _entries: dict[str, TopicEntry] = field(factory=dict)
    #: Why a topic cannot be used on any broker, by topic.
    _problems: dict[str, str] = field(factory=dict, init=False)

    def names(self) -> list[str]:
        """See ITopics."""
        return sorted(self._entries)

    def get(self, topic: str) -> TopicEntry | None:
        """See ITopics."""
        return self._entries.get(topic)

    def problem(self, topic: str) -> str | None:
        """See ITopics."""
        return self._problems.get(topic)

    @property
    def partitions(self) -> int:
        """How many partitions all topics have."""
        return sum(len(entry.partitions) for entry in self._entries.values())

    def show(self, topic: str, entry: TopicEntry) -> None:
        """Tell clients of a topic from now on."""
        self._entries[topic] = entry

    def hide(self, topic: str) -> None:
        """Tell clients of a topic no more."""
        self._entries.pop(topic, None)

    def set_problem(self, topic: str, problem: str | None) -> None:
        """Say why a topic cannot be used; None: it can."""
        if problem is None:
            self._problems.pop(topic, None)
        else:
            self._problems[topic] = problem
