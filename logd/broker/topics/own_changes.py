"""The changes of topics that were made here, and that this broker's view of the tree may not show yet."""

from __future__ import annotations

from attrs import define, field, frozen

from logd.topic import TopicEntry


@frozen
class _Altered:
    """A topic whose entry was changed here."""

    #: The entries that it had before, and that may still be seen.
    former: tuple[TopicEntry, ...]
    latest: TopicEntry


@define(eq=False)
class OwnChanges:
    """Corrects what was last seen of a topic by what was done here since."""

    #: uuids of deleted topics, by name.
    _deleted: dict[str, str] = field(factory=dict, init=False)
    _altered: dict[str, _Altered] = field(factory=dict, init=False)

    def deleted(self, topic: str, shown: TopicEntry | None) -> None:
        """Note a topic that was just deleted here, of which ``shown`` was last seen."""
        if shown is not None:
            self._deleted[topic] = shown.uuid

    def altered(self, topic: str, former: TopicEntry, entry: TopicEntry, shown: TopicEntry | None) -> None:
        """Note an entry that was just changed here, and of which ``shown`` was last seen."""
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
        """Return the topic's entry now, of which ``shown`` was last seen; None if it is deleted."""
        if shown is None or shown.uuid == self._deleted.get(topic):
            return None
        altered = self._altered.get(topic)
        return altered.latest if altered is not None and shown in altered.former else shown
