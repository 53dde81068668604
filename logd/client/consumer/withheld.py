"""The partitions of a stream that hand nothing over while a message of theirs is being handled."""

from __future__ import annotations

from collections.abc import Callable

from attrs import define, field

from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.topic import TopicPartition


@define(eq=False)
class Withheld:
    """The withheld partitions of one handling, which is told when their messages should not be waited for."""

    #: Called with a partition that was taken away, and with None when all were, or the stream is closed.
    interrupt: Callable[[TopicPartition | None], None]
    fetches: set[PartitionFetch] = field(factory=set)
    #: True if messages count as handled by reports for the time of the handling alone.
    counts_alone: bool = False
