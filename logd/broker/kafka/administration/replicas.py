"""The numbers and the assignments of replicas that Kafka's clients ask for."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from logd.broker.kafka.administration.refusals import Refused
from logd.broker.kafka.error_codes import INVALID_REPLICA_ASSIGNMENT, INVALID_REPLICATION_FACTOR
from logd.coord.partition_state import MOST_REPLICAS
from logd.plurals import counted


def check_factor(topic: str, replicas: int, live: Collection[int]) -> None:
    """Raise Refused unless partitions can have so many replicas now."""
    if not 1 <= replicas <= MOST_REPLICAS:
        raise Refused(
            INVALID_REPLICATION_FACTOR,
            f"topic {topic!r} cannot have {counted(replicas, 'replica')}: allowed are 1 to {MOST_REPLICAS}, and -1 for "
            "the broker's own number",
        )
    if replicas > len(live):
        raise Refused(
            INVALID_REPLICATION_FACTOR,
            f"topic {topic!r} cannot have {counted(replicas, 'replica')}: {counted(len(live), 'broker')} are live",
        )


def check_assignment(topic: str, assigned: Iterable[tuple[int, ...]], live: Collection[int], replicas: int = 0) -> None:
    """Raise Refused unless each partition is assigned to live brokers, all partitions to equally many.

    ``replicas``: to so many, 0 for as many as the first one is.
    """
    for brokers in assigned:
        replicas = replicas or len(brokers)
        text = ""
        if not brokers or len(set(brokers)) != len(brokers):
            text = f"topic {topic!r} cannot have a partition on brokers {list(brokers)}: name one or more, each once"
        elif len(brokers) > MOST_REPLICAS:
            text = f"topic {topic!r} cannot have {len(brokers)} replicas: allowed are 1 to {MOST_REPLICAS}"
        elif len(brokers) != replicas:
            text = f"topic {topic!r} has {counted(replicas, 'replica')} of each partition, and not {len(brokers)}"
        elif dead := set(brokers).difference(live):
            text = f"topic {topic!r} cannot be on broker {min(dead)}: the live brokers are {sorted(live)}"
        if text:
            raise Refused(INVALID_REPLICA_ASSIGNMENT, text)
