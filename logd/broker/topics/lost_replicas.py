"""The check that no broker has a log of a replicated partition any more, so that the partition may begin again."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from logd.coord.registries.stored_ends import StoredEnds
from logd.errors import InvalidRequest


def end_of_lost(
    name: str, number: int, me: int, members: Collection[int], stored: Mapping[int, StoredEnds], live: Mapping[int, str]
) -> int:
    """Return the greatest stored end of a partition, ``name``, of which no broker has a log any more.

    ``me`` is a broker that has lost its log, ``members`` are the brokers that are to store the partition, or that its
    state counts on; ``stored`` has the stored ends of its topic, ``live`` the data directory of each live broker. Every
    broker that has stored the partition has to be live with another data directory: one that is away may be back with
    its log. Raises InvalidRequest, which names the first broker that has a log, or may have one.
    """
    named = {broker: each for broker, each in stored.items() if number in each.ends}
    for broker in sorted({*members, *named} - {me}):
        if broker not in live:
            raise InvalidRequest(
                f"{name} cannot begin again: broker {broker} is not live, and may have a log of it. Start that broker, "
                "with an empty data directory if its disk is lost for good"
            )
        if broker not in named or named[broker].instance_of(number) == live[broker]:
            raise InvalidRequest(
                f"{name} cannot begin again: broker {broker} has a log of it. See `logd elect --help`, and the /health "
                "of that broker if its log is offline; `logd topics reassign` makes it a replica if it is none"
            )
    return max((each.ends[number] for each in named.values()), default=0)
