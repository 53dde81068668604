"""The topics as clients are told of them: names, entries, and the reasons why some cannot be used."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from logd.topic import TopicEntry


@define(eq=False)
class TopicDirectory:
    """The topics that request handlers read without waiting. The reconciler and the administration write them."""

    _entries: dict[str, TopicEntry] = field(factory=dict)
    #: The reasons why topics cannot be used on any broker, by topic.
    _problems: dict[str, str] = field(factory=dict, init=False)
    #: See ``cluster``.
    uuid_of_cluster: Callable[[], str] = field(default=str, init=False)
    #: Called after a topic was shown, with its entry, and after one was hidden, with None.
    on_change: Callable[[str, TopicEntry | None], None] = field(default=lambda topic, entry: None, init=False)

    def cluster(self) -> str:
        """Return the uuid of the cluster whose topics they are; empty while it is not known."""
        return self.uuid_of_cluster()

    def names(self) -> list[str]:
        """Return all topics, sorted."""
        return sorted(self._entries)

    def get(self, topic: str) -> TopicEntry | None:
        """Return a topic's entry, None for an unknown topic."""
        return self._entries.get(topic)

    def created_by(self, user: str) -> dict[str, int]:
        """Return the topics that count for a user's quota, with their numbers of partitions."""
        return {name: len(entry.partitions) for name, entry in self._entries.items() if entry.created_by == user}

    def problem(self, topic: str) -> str | None:
        """Return the reason why a known topic cannot be used; None if it can."""
        return self._problems.get(topic)

    @property
    def partitions(self) -> int:
        """The number of partitions of all topics."""
        return sum(len(entry.partitions) for entry in self._entries.values())

    def show(self, topic: str, entry: TopicEntry) -> None:
        """Show a topic to clients from now on."""
        self._entries[topic] = entry
        self.on_change(topic, entry)

    def hide(self, topic: str) -> None:
        """Hide a topic from clients from now on."""
        if self._entries.pop(topic, None) is not None:
            self.on_change(topic, None)

    def set_problem(self, topic: str, problem: str | None) -> None:
        """Set the reason why a topic cannot be used; None if it can."""
        if problem is None:
            self._problems.pop(topic, None)
        else:
            self._problems[topic] = problem
