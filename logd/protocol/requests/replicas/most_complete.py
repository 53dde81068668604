"""The choice of the replica with the most, for an election that loses messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from logd.leadership import NO_LEADER
from logd.protocol.requests.replicas.describe_replicas import NO_LOG, OFFLINE, DescribedReplica


class MostComplete(NamedTuple):
    """The replica that an unclean election of a partition lets lead."""

    #: Its broker, NO_LEADER if no broker that was asked has a log that can be served.
    broker: int
    #: The end of its log, and the greatest end that was visible to readers as far as that is known; -1: unknown.
    end: int
    known_end: int


def by_partition(replicas: Iterable[DescribedReplica]) -> dict[int, DescribedReplica]:
    """Return the described logs of one broker by partition: a topic may have thousands."""
    return {each.partition: each for each in replicas}


def most_complete(
    partition: int, replicas: Sequence[int], described: Mapping[int, Mapping[int, DescribedReplica]]
) -> MostComplete:
    """Return the replica whose last entry has the highest leader epoch, and of these the one with the longest log.

    ``described`` has what each broker that answers says of its logs of the topic, by partition. Of equal replicas the
    first one in ``replicas`` is chosen. The longest log alone would not do: it may have messages that later leaders
    took back.
    """
    found = ((broker, described.get(broker, {}).get(partition)) for broker in replicas)
    logs = {broker: log for broker, log in found if log is not None}
    known_end = max((max(log.recorded_end, log.visible_end) for log in logs.values()), default=-1)
    usable = {broker: log for broker, log in logs.items() if log.role not in (NO_LOG, OFFLINE)}
    if not usable:
        return MostComplete(NO_LEADER, -1, known_end)
    chosen = max(usable, key=lambda broker: (usable[broker].last_epoch, usable[broker].end))  # the first of equal ones
    return MostComplete(chosen, usable[chosen].end, known_end)
