"""What to say when what is stored here and the coordination tree do not go together: both sides, and remedies."""

from __future__ import annotations

from logd.topic import TopicEntry


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
