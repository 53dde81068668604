"""The leadership of a partition: leader, leader epoch, replicas and in-sync replicas (LeaderAndIsr in Kafka)."""

from __future__ import annotations

from collections.abc import Container

from attrs import frozen

from logd.errors import NotEnoughReplicas, StaleLeaderEpoch

#: The leader of a partition that has no live replica.
NO_LEADER = -1


@frozen
class PartitionLeadership:
    """The leadership of one partition as known at one moment. Brokers are named by their ids.

    Without replication every partition has one replica, which is the leader in epoch 0 and the only in-sync replica.
    """

    #: The broker that takes messages and answers fetches; NO_LEADER if there is none.
    leader: int
    #: The leader epoch, which rises with each change of the leader.
    epoch: int
    #: The brokers that store the partition, the preferred leader first.
    replicas: tuple[int, ...]
    #: The replicas that have all visible messages.
    in_sync: tuple[int, ...]

    @classmethod
    def alone(cls, broker: int) -> PartitionLeadership:
        """Return the leadership of a partition that only ``broker`` stores and leads."""
        return cls(broker, 0, (broker,), (broker,))

    @classmethod
    def of_first_live(cls, replicas: tuple[int, ...], live: Container[int]) -> PartitionLeadership:
        """Return the leadership of a partition whose leader is its first live replica."""
        return cls(next((broker for broker in replicas if broker in live), NO_LEADER), 0, replicas, replicas)

    @property
    def is_alone(self) -> bool:
        """True if only one replica is in sync, so that everything it has flushed is visible."""
        return len(self.in_sync) == 1

    def check_fetch(self, epoch: int) -> None:
        """Raise StaleLeaderEpoch for a fetch that names a later leader epoch. A client without one names -1."""
        if epoch > self.epoch:
            raise StaleLeaderEpoch(f"leader epoch {epoch} is not this broker's")

    def check_produce(self, epoch: int, acks: int) -> None:
        """Check the leader epoch of a produce, and the number of copies it waits for (-1: all in-sync replicas).

        Raises StaleLeaderEpoch, and NotEnoughReplicas if there are fewer in-sync replicas than copies.
        """
        if acks > len(self.in_sync):
            raise NotEnoughReplicas(f"{acks} copies were asked for; the partition has {len(self.in_sync)} in sync")
        if epoch > self.epoch:
            raise StaleLeaderEpoch(f"leader epoch {epoch} is not this broker's")
