"""Stand-ins for what a mirror of one partition uses."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import define, field
from twisted.internet.defer import Deferred, succeed

from logd.client.consumer.fetching.batches import RawChunk
from logd.topic import TopicPartition

WHERE = TopicPartition("web", 0)


@define(eq=False)
class SoughtStream:
    """A stand-in for a group's stream, which notes what is asked of it."""

    position: int = 0
    sought: list[int] = field(factory=list)
    handled_up_to: list[int | None] = field(factory=list)
    paused: bool = False

    def partitions(self) -> Sequence[TopicPartition]:
        """Return the one partition."""
        return [WHERE]

    def positions(self, topic: str) -> dict[int, int]:
        """Return its position."""
        return {0: self.position}

    def pause(self, partition: int, topic: str) -> None:
        """Note it."""
        self.paused = True

    def resume(self, partition: int, topic: str) -> None:
        """Note it."""
        self.paused = False

    def seek(self, partition: int, position: int, topic: str) -> None:
        """Note it; all before counts as handled."""
        self.go_back(partition, position, topic)
        self.handled_up_to.append(position)

    def go_back(self, partition: int, position: int, topic: str) -> RawChunk:
        """Note it."""
        self.position = position
        self.sought.append(position)
        return RawChunk(topic, partition, position, b"", -1)

    def end_positions(self, topic: str) -> Deferred[dict[int, int]]:
        """Return its end."""
        return succeed({0: self.position})

    def handled(self, chunk: RawChunk, up_to: int | None) -> None:
        """Note it."""
        self.handled_up_to.append(up_to)
