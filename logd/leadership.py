"""The leadership of a partition: leader, leader epoch, replicas and in-sync replicas (LeaderAndIsr in Kafka)."""

from __future__ import annotations

from collections.abc import Container

from attrs import frozen

from logd.errors import NotEnoughReplicas, StaleLeaderEpoch

#: The leader of a partition none of whose replicas is live.
NO_LEADER = -1


@frozen
class PartitionLeadership:
    """One partition's leadership as known at one moment. Brokers stand here by their ids.

    Until there is replication every partition has one replica, which leads in epoch 0 and is alone in sync.
    """

    #: The broker that takes messages and answers fetches, NO_LEADER for none.
    leader: int
    #: Rises with each change of the leader.
    epoch: int
    #: The brokers that hold the partition, the preferred leader first.
    replicas: tuple[int, ...]
    #: The replicas that have everything that is visible.
    in_sync: tuple[int, ...]

    @classmethod
    def alone(cls, broker: int) -> PartitionLeadership:
        """Return the leadership of a partition that ``broker`` alone holds, and leads."""
        return cls(broker, 0, (broker,), (broker,))

    @classmethod
    def of_first_live(cls, replicas: tuple[int, ...], live: Container[int]) -> PartitionLeadership:
        """Return the leadership of a partition whose leader is the first of its replicas that is live."""
        return cls(next((broker for broker in replicas if broker in live), NO_LEADER), 0, replicas, replicas)

    @property
    def is_alone(self) -> bool:
        """Whether one replica alone is in sync, so that all that it has flushed is visible."""
        return len(self.in_sync) == 1

    def check_fetch(self, epoch: int) -> None:
        """Raise StaleLeaderEpoch for a fetch that names a later leader epoch; one that knows none names -1."""
        if epoch > self.epoch:
            raise StaleLeaderEpoch(f"leader epoch {epoch} is not this broker's")

    def check_produce(self, epoch: int, acks: int) -> None:
        """Check a produce that names this leader epoch and waits for so many copies (-1: all in-sync replicas).

        Raises StaleLeaderEpoch, and NotEnoughReplicas for more copies than there are in-sync replicas.
        """
        if acks > len(self.in_sync):
            raise NotEnoughReplicas(f"{acks} copies were asked for; the partition has {len(self.in_sync)} in sync")
        if epoch > self.epoch:
            raise StaleLeaderEpoch(f"leader epoch {epoch} is not this broker's")
