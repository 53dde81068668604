"""The progress of a stream: the offsets that Spark stores in its checkpoint, and the size of the next batch.

    {"version": 1, "topics": {TOPIC: {"uuid": UUID, "partitions": {NUMBER: POSITION}, "began": {NUMBER: POSITION}}}}

Positions are entry boundaries. The uuid identifies a topic among those of one name. ``began`` is the
first position that the stream read of a partition (of a later one only if it was above 0), or the position at which it
continued in a log that began after its position: a repeated batch begins at the same position. Spark does not store the
offset before the first batch, and asks for it again to repeat that batch, when "latest" is another position. So that
offset has the member ``"initial": true``, and the end of the first batch says where the batch began.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from attrs import field, frozen

from logd.errors import ConfigurationError
from logd.spark.blocking.range_planning import PartitionName

VERSION = 1


@frozen
class Progress:
    """A position for each partition; ``began`` is the first position of partitions, if it is known."""

    positions: Mapping[PartitionName, int] = field(factory=dict)
    began: Mapping[PartitionName, int] = field(factory=dict)
    #: True for the offset before the first batch.
    initial: bool = False

    def start_of(self, name: PartitionName, end: Progress) -> int:
        """Return where a batch that begins here and has reached ``end`` begins in a partition."""
        position = self.positions.get(name, 0)
        if self.initial:
            return end.began.get(name, position)
        return max(position, end.began.get(name, 0))

    def to_json(self) -> dict[str, Any]:
        """Return the offsets as Spark stores them; equal ones give equal text."""
        topics: dict[str, Any] = {}
        for name, position in sorted(self.positions.items()):
            topic = topics.setdefault(name.topic, {"uuid": name.uuid, "partitions": {}})
            topic["partitions"][str(name.partition)] = position
            if name in self.began:
                topic.setdefault("began", {})[str(name.partition)] = self.began[name]
        return {"version": VERSION, "topics": topics, **({"initial": True} if self.initial else {})}

    @classmethod
    def from_json(cls, value: Any) -> Progress:
        """Read stored offsets. Raises ConfigurationError if they are not logd's, or of a later release."""
        try:
            if value["version"] != VERSION:
                raise ConfigurationError(
                    f"the checkpoint holds offsets of version {value['version']}, this release reads {VERSION}"
                )
            positions: dict[PartitionName, int] = {}
            began: dict[PartitionName, int] = {}
            for topic, entry in value["topics"].items():
                for found, places in ((positions, entry["partitions"]), (began, entry.get("began", {}))):
                    for number, position in places.items():
                        found[PartitionName(topic, str(entry["uuid"]), int(number))] = int(position)
            return cls(positions, began, value.get("initial") is True)
        except (KeyError, TypeError, ValueError, AttributeError):
            raise ConfigurationError(f"not offsets of a logd stream: {str(value)[:200]}") from None


class Places(Protocol):
    """The queries that ``admit`` sends to the brokers."""

    def boundary(self, name: PartitionName, position: int) -> int:
        """Return the entry boundary at or before a position."""
        ...

    def entry_end(self, name: PartitionName, position: int) -> int:
        """Return the end of the entry that contains a position, or begins at it."""
        ...


def admit(
    start: Mapping[PartitionName, int], ends: Mapping[PartitionName, int], budget: int | None, places: Places
) -> dict[PartitionName, int]:
    """Return the end of a batch of at most ``budget`` bytes of log, for each partition of ``ends``.

    Each partition gets a share in proportion to its new bytes, rounded down to an entry boundary. The rest goes to the
    partitions with most new bytes. If no entry fits, one is taken whole, so that a stream never stops: a batch exceeds
    its budget by at most that entry. ``None`` is no limit.
    """
    behind = {name: max(end - start[name], 0) for name, end in ends.items()}
    total = sum(behind.values())
    if budget is None or total <= budget:
        return {name: start[name] + size for name, size in behind.items()}
    taken = {
        name: _down_to(start[name], start[name] + budget * size // total, name, places) for name, size in behind.items()
    }
    left = budget - sum(taken[name] - start[name] for name in taken)
    for name in _most_behind(taken, ends):
        further = min(taken[name] + left, ends[name])
        if left <= 0:
            break
        reached = further if further == ends[name] else _down_to(taken[name], further, name, places)
        left -= reached - taken[name]
        taken[name] = reached
    if left == budget:
        name = _most_behind(taken, ends)[0]
        taken[name] = places.entry_end(name, taken[name])
    return taken


def _down_to(least: int, position: int, name: PartitionName, places: Places) -> int:
    return max(places.boundary(name, position), least) if position > least else least


def _most_behind(taken: Mapping[PartitionName, int], ends: Mapping[PartitionName, int]) -> Sequence[PartitionName]:
    """Return the partitions that have bytes left, those with most first."""
    left = [(taken[name] - ends[name], name) for name in taken if taken[name] < ends[name]]
    return [name for _, name in sorted(left)]
