"""The rates of mirrors, from the pairs of positions that they have stored."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from logd.client.admin.admin import Admin
from logd.client.consumer.consumer import Consumer
from logd.mirror.positions.pair_search import PairSearch
from logd.topic import TopicPartition


@frozen
class MirrorRate:
    """Messages, and bytes of the source's log, that were mirrored in a second."""

    messages: float
    size: float


async def recent_rates(
    admin: Admin, consumer: Callable[[], Consumer], cluster: str, now: int, over: int
) -> dict[TopicPartition, MirrorRate]:
    """Return the rate of each partition of the source ``cluster`` over the last ``over`` ms before ``now``.

    Raises as ``PairSearch.backwards``. Partitions of which nothing was mirrored meanwhile are missing.
    """
    sums: dict[TopicPartition, tuple[int, int]] = {}
    async for pairs in PairSearch(admin, consumer).backwards():
        for pair in pairs:
            if pair.cluster == cluster and pair.time > now - over:
                messages, size = sums.get(TopicPartition(pair.topic, pair.partition), (0, 0))
                sums[TopicPartition(pair.topic, pair.partition)] = messages + pair.messages, size + pair.size
        if pairs and pairs[0].time <= now - over:
            break
    seconds = over / 1000
    return {where: MirrorRate(messages / seconds, size / seconds) for where, (messages, size) in sums.items()}
