"""Say why a partition has no leader, and what gives it one."""

from __future__ import annotations

from collections.abc import Container

from logd.protocol.requests.metadata import PartitionMetadata


def why_leaderless(topic: str, partition: PartitionMetadata, live: Container[int]) -> str:
    """Return the reason and the remedy for a partition that no live broker leads."""
    number = partition.partition
    able = [broker for broker in partition.in_sync if broker in live]
    if able:
        return (
            f"partition {number} has no leader at the moment: broker {_either(able)} was in sync and is live, and can "
            "lead soon, unless its log is offline: /health of that broker says why"
        )
    if len(partition.replicas) < 2:
        return f"broker {_either(partition.replicas)}, which stores partition {number}, is not live"
    unclean = f"`logd elect {topic} --unclean`"
    if not partition.in_sync:
        return (
            f"partition {number} has no leader, since no replica is known to be in sync: {unclean} shows what each has"
        )
    return (
        f"partition {number} has no leader, since no in-sync replica is live: start broker "
        f"{_either(partition.in_sync)}; {unclean} shows what would be lost without"
    )


def _either(brokers: tuple[int, ...] | list[int]) -> str:
    return " or ".join(map(str, sorted(brokers)))
