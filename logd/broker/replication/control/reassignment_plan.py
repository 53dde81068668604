"""The plan of a reassignment: which brokers are to store which partitions, with as few copies as possible."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence


def plan_reassignment(
    partitions: Mapping[int, Sequence[int]], brokers: Sequence[int], replicas: int, racks: Mapping[int, str]
) -> dict[int, tuple[int, ...]]:
    """Return the replicas of each partition, the preferred leader first, spread evenly over ``brokers``.

    ``replicas`` is the number of copies, 0 for as many as each partition has; there must be so many brokers. A replica
    stays where it is, unless its broker is to store none or has more than its share. New ones are put on brokers with
    few, and on other ``racks`` than those of the same partition.
    """
    counts = {number: replicas or len(current) for number, current in partitions.items()}
    kept = {
        number: [broker for broker in current if broker in brokers][: counts[number]]
        for number, current in sorted(partitions.items())
    }
    load = Counter(broker for each in kept.values() for broker in each)
    share = -(-sum(counts.values()) // max(len(brokers), 1))
    for is_first in (False, True):  # followers are taken away before leaders
        for number, each in kept.items():
            for broker in each.copy():
                if load[broker] > share and (broker == partitions[number][0]) is is_first:
                    each.remove(broker)
                    load[broker] -= 1
    for number, each in kept.items():
        while len(each) < counts[number]:
            used = {racks[broker] for broker in each if broker in racks}
            free = [broker for broker in brokers if broker not in each]
            chosen = min(free, key=lambda broker: (racks.get(broker) in used, load[broker], broker))
            each.append(chosen)
            load[chosen] += 1
    _even_out(partitions, kept, brokers, load, racks)
    return _with_leaders(partitions, kept, len(brokers))


def _even_out(
    partitions: Mapping[int, Sequence[int]],
    kept: Mapping[int, list[int]],
    brokers: Sequence[int],
    load: Counter[int],
    racks: Mapping[int, str],
) -> None:
    """Move new replicas from brokers with many to brokers with few, where that takes no rack from a partition."""
    for number, each in kept.items():
        for at, broker in enumerate(each):
            if broker in partitions[number]:
                continue
            used = {racks[other] for other in each if other in racks and other != broker}
            free = [
                other
                for other in brokers
                if other not in each and (racks.get(other) not in used or racks.get(broker) in used)
            ]
            fewest = min(free, key=lambda other: load[other], default=broker)
            if load[fewest] < load[broker] - 1:
                each[at] = fewest
                load[broker] -= 1
                load[fewest] += 1


def _with_leaders(
    partitions: Mapping[int, Sequence[int]], kept: Mapping[int, Sequence[int]], brokers: int
) -> dict[int, tuple[int, ...]]:
    """Return the replicas in an order that gives each broker its share of preferred leaders."""
    share = -(-len(kept) // max(brokers, 1))
    leads: Counter[int] = Counter()
    staying: dict[int, int] = {}
    for number, each in kept.items():
        first = partitions[number][0]
        if first in each and leads[first] < share:
            staying[number] = first
            leads[first] += 1
    planned = {}
    for number, each in kept.items():
        first = staying.get(number, -1)
        if first == -1:
            first = min(each, key=lambda broker: leads[broker])
            leads[first] += 1
        planned[number] = (first, *(broker for broker in each if broker != first))
    return planned
