"""Texts for conflicts between the logs stored here and the coordination tree: both sides, and the remedies."""

from __future__ import annotations

from logd.errors import UnknownError
from logd.topic import TopicEntry

#: The most partitions that a text names; a topic can have thousands.
_NAMED = 5


class LogRefused(UnknownError):
    """A log is not served, and not touched, as long as it and the coordination tree contradict each other."""


def other_uuid(topic: str, record: TopicEntry, entry: TopicEntry, broker: int) -> str:
    """Describe a conflict of uuids: logs are stored here under ``record``, the tree has another topic, ``entry``."""
    return (
        f"topic {topic!r} is stored on broker {broker} under uuid {record.uuid}, but in the coordination tree "
        f"under uuid {entry.uuid}: two different topics. The logs on this broker are not served and not touched. If "
        "they are not wanted, stop the broker and move their folders away; if they are, delete the other topic: then "
        "they are served"
    )


def other_brokers(topic: str, partitions: list[int], entry: TopicEntry, broker: int) -> str:
    """Describe a conflict of brokers: these partitions are stored here, but ``entry`` lists other brokers for them."""
    listed = "; ".join(f"{number}: {list(entry.partitions.get(number, ()))}" for number in partitions)
    return (
        f"partitions {partitions} of topic {topic!r} are stored on broker {broker}, but the coordination tree lists "
        f"other brokers for them ({listed}). The logs on this broker are not served and not touched. If they are not "
        "wanted, stop the broker and move their folders away; if they are, write this broker into the topic's entry "
        "in the tree"
    )


def several_brokers(topic: str, entry: TopicEntry) -> str | None:
    """Return the reason to refuse a topic with partitions on several brokers or on none; None if it can be used."""
    wrong = {
        number: list(brokers)
        for number, brokers in sorted(entry.partitions.items())
        if len(brokers) != 1 and not (entry.replicated and brokers)
    }
    if not wrong:
        return None
    listed = "; ".join(f"{number}: {brokers}" for number, brokers in list(wrong.items())[:_NAMED])
    more = f" and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
    return (
        f"topic {topic!r} cannot be used: it is not replicated, so each partition has to be on one broker, but the "
        f"topic's entry in the coordination tree lists ({listed}{more}). Nothing of the topic is served or touched. "
        "Write one broker for each partition into that entry: the one that has its messages"
    )


def unreadable_ends(topic: str, error: str) -> str:
    """Describe an unreadable node with the stored ends of a topic on this broker."""
    return (
        f"topic {topic!r} is not served: {error}. Its stored ends are therefore unknown, and ids could be given "
        "twice. Write that node as it was; or remove it, if you are certain that all of the topic's files are here"
    )
