"""The changes of topics that this broker has made, and that its view of the tree may not show yet."""

from __future__ import annotations

from attrs import define, field, frozen

from logd.topic import TopicEntry


@frozen
class _Altered:
    """A topic whose entry this broker has changed."""

    #: The entries that it had before, and that may still be seen.
    former: tuple[TopicEntry, ...]
    latest: TopicEntry


@define(eq=False)
class OwnChanges:
    """Corrects the last seen entry of a topic by the changes that this broker has made since."""

    #: uuids of deleted topics, by name.
    _deleted: dict[str, str] = field(factory=dict, init=False)
    _altered: dict[str, _Altered] = field(factory=dict, init=False)

    def deleted(self, topic: str, shown: TopicEntry | None) -> None:
        """Note that this broker has just deleted a topic, whose entry was last seen as ``shown``."""
        if shown is not None:
            self._deleted[topic] = shown.uuid

    def altered(self, topic: str, former: TopicEntry, entry: TopicEntry, shown: TopicEntry | None) -> None:
        """Note that this broker has just changed an entry, which was last seen as ``shown``."""
        known = self._altered.get(topic)
        before = (*(known.former if known is not None else ()), former)
        self._altered[topic] = _Altered(tuple(each for each in before if each != entry), entry)
        self.seen(topic, shown)

    def seen(self, topic: str, shown: TopicEntry | None) -> None:
        """Forget the changes that ``shown``, which was just seen of the topic, includes."""
        if topic in self._deleted and (shown is None or shown.uuid != self._deleted[topic]):
            del self._deleted[topic]
        if topic in self._altered and shown not in self._altered[topic].former:
            del self._altered[topic]

    def latest(self, topic: str, shown: TopicEntry | None) -> TopicEntry | None:
        """Return the topic's present entry, which was last seen as ``shown``; None if the topic is deleted."""
        if shown is None or shown.uuid == self._deleted.get(topic):
            return None
        altered = self._altered.get(topic)
        return altered.latest if altered is not None and shown in altered.former else shown
