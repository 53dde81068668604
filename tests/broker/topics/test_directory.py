"""Tests of logd.broker.topics.directory."""

from __future__ import annotations

from collections.abc import Iterator

from twisted.trial.unittest import SynchronousTestCase

from logd.broker.topics.directory import TopicDirectory
from logd.topic import TopicEntry


def entry(partitions: int, user: str = "") -> TopicEntry:
    """Return the entry of a topic."""
    return TopicEntry("u", dict.fromkeys(range(partitions), (0,)), created_by=user)


class _Unwalked(dict[str, TopicEntry]):
    """Topics that nobody may go through."""

    walked = 0

    def __iter__(self) -> Iterator[str]:
        self.walked += 1
        return super().__iter__()

    items = values = keys = __iter__  # type: ignore[assignment]


class TopicDirectoryTests(SynchronousTestCase):
    """The numbers of partitions, which each creation of a topic asks for."""

    def test_partitions_follow_the_topics(self) -> None:
        """Those at the start, those that are shown and grow, and those that are hidden."""
        directory = TopicDirectory({"a": entry(3)})
        self.assertEqual(directory.partitions, 3)
        directory.show("b", entry(2, "ann"))
        directory.show("a", entry(5))
        self.assertEqual(directory.partitions, 7)
        directory.hide("b")
        directory.hide("b")
        self.assertEqual(directory.partitions, 5)

    def test_partitions_of_a_user(self) -> None:
        """A topic that is made again by another user counts for that one."""
        directory = TopicDirectory({"a": entry(3, "ann")})
        directory.show("b", entry(2, "ann"))
        self.assertEqual(directory.created_by("ann"), {"a": 3, "b": 2})
        directory.show("b", entry(4, "bob"))
        self.assertEqual((directory.created_by("ann"), directory.created_by("bob")), ({"a": 3}, {"b": 4}))
        directory.hide("a")
        self.assertEqual(directory.created_by("ann"), {})

    def test_no_look_at_every_topic(self) -> None:
        """One request may name thousands of new topics, where there are thousands already."""
        topics = _Unwalked()
        directory = TopicDirectory(topics)
        topics.walked = 0
        directory.show("a", entry(3, "ann"))
        directory.show("a", entry(4, "ann"))
        self.assertEqual((directory.partitions, directory.created_by("ann")), (4, {"a": 4}))
        directory.hide("a")
        self.assertEqual((directory.partitions, topics.walked), (0, 0))
