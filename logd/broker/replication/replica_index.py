"""The replicas of one broker by topic and partition."""

from __future__ import annotations

from collections.abc import Collection

from logd.broker.replication.replica import Replica


class ReplicaIndex(dict[tuple[str, int], Replica]):
    """Finds a partition's replica, and those of a topic without a look at all others. Change it by these methods."""

    def __init__(self) -> None:
        """Begin with none."""
        super().__init__()
        self._numbers: dict[str, set[int]] = {}

    def add(self, replica: Replica) -> None:
        """Add a replica."""
        topic, number = replica.log.topic, replica.log.partition
        self[topic, number] = replica
        self._numbers.setdefault(topic, set()).add(number)

    def of_topic(self, topic: str) -> list[Replica]:
        """Return the replicas of a topic."""
        return [self[topic, number] for number in self._numbers.get(topic, ())]

    def offline(self) -> list[Replica]:
        """Return the replicas whose logs cannot be served."""
        return [replica for replica in self.values() if replica.log.offline is not None]

    def stop_others(self, topic: str, kept: Collection[int] = ()) -> None:
        """Stop and remove the replicas of a topic, but those of the partitions ``kept``."""
        numbers = self._numbers.get(topic, set())
        for number in numbers.difference(kept):
            numbers.discard(number)
            self.pop((topic, number)).stop()
        if not numbers:
            self._numbers.pop(topic, None)
