"""What to say when what is stored here and the coordination tree do not go together: both sides, and remedies."""

from __future__ import annotations

from logd.topic import TopicEntry

#: Partitions that a text names; a topic can have thousands.
_NAMED = 5


def other_uuid(topic: str, record: TopicEntry, entry: TopicEntry, broker: int) -> str:
    """Something is stored here as ``record``, and the tree has another topic of that name, ``entry``."""
    return (
        f"topic {topic!r} is stored on broker {broker} under uuid {record.uuid}, and the coordination tree has it "
        f"under uuid {entry.uuid}: two different topics. What is stored here is not served and not touched. If it is "
        "not wanted, stop the broker and move its folders away; if it is, delete the other topic: then it is served"
    )


def other_brokers(topic: str, partitions: list[int], entry: TopicEntry, broker: int) -> str:
    """These partitions are stored here, and the tree's ``entry`` lists others for them."""
    listed = "; ".join(f"{number}: {list(entry.partitions.get(number, ()))}" for number in partitions)
    return (
        f"partitions {partitions} of topic {topic!r} are stored on broker {broker}, and the coordination tree lists "
        f"others for them ({listed}). What is stored here is not served and not touched: if it is not wanted, stop the "
        "broker and move those folders away; if it is, write this broker into the topic's entry in the tree"
    )


def several_brokers(topic: str, entry: TopicEntry) -> str | None:
    """The reason not to use a topic of which partitions are to be on several brokers, or on none; None: use it."""
    wrong = {number: list(brokers) for number, brokers in sorted(entry.partitions.items()) if len(brokers) != 1}
    if not wrong:
        return None
    listed = "; ".join(f"{number}: {brokers}" for number, brokers in list(wrong.items())[:_NAMED])
    more = f" and {len(wrong) - _NAMED} more" if len(wrong) > _NAMED else ""
    return (
        f"topic {topic!r} cannot be used: each partition has to be on one broker, as this release has no replication, "
        f"and the topic's entry in the coordination tree lists others ({listed}{more}). Nothing of it is served or "
        "touched; write one broker for each partition into that entry, the one that has its messages"
    )


def unreadable_ends(topic: str, error: str) -> str:
    """The stored ends of a topic on this broker, a node in the tree, cannot be read."""
    return (
        f"topic {topic!r} is not served: {error}. So it is not known how far it was stored, and ids could be given "
        "twice. Write that node as it was; or remove it, if you are certain that all of the topic's files are here"
    )
