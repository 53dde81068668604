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
    #: The number of partitions of all topics. Counted along: a creation asks, and one request may create thousands.
    partitions: int = field(init=False)
    #: The numbers of partitions of the topics that count for each user's quota; as above.
    _created_by: dict[str, dict[str, int]] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        self.partitions = 0
        for topic, entry in self._entries.items():
            self._count(topic, entry)

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
        return dict(self._created_by.get(user, ()))

    def problem(self, topic: str) -> str | None:
        """Return the reason why a known topic cannot be used; None if it can."""
        return self._problems.get(topic)

    def show(self, topic: str, entry: TopicEntry) -> None:
        """Show a topic to clients from now on."""
        self._discount(topic, self._entries.get(topic))
        self._entries[topic] = entry
        self._count(topic, entry)
        self.on_change(topic, entry)

    def hide(self, topic: str) -> None:
        """Hide a topic from clients from now on."""
        entry = self._entries.pop(topic, None)
        if entry is not None:
            self._discount(topic, entry)
            self.on_change(topic, None)

    def set_problem(self, topic: str, problem: str | None) -> None:
        """Set the reason why a topic cannot be used; None if it can."""
        if problem is None:
            self._problems.pop(topic, None)
        else:
            self._problems[topic] = problem

    def _count(self, topic: str, entry: TopicEntry) -> None:
        self.partitions += len(entry.partitions)
        self._created_by.setdefault(entry.created_by, {})[topic] = len(entry.partitions)

    def _discount(self, topic: str, entry: TopicEntry | None) -> None:
        if entry is not None:
            self.partitions -= len(entry.partitions)
            created = self._created_by[entry.created_by]
            del created[topic]
            if not created:
                del self._created_by[entry.created_by]
