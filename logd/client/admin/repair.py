"""Repair requests: brokers check their logs for damage, and mend it."""

from __future__ import annotations

from collections.abc import AsyncIterator

from logd.client.cluster.cluster import Cluster
from logd.errors import WrongPartition, error_for_code
from logd.protocol.requests.repair import Repair, RepairResponse

#: Seconds: the broker checks a whole segment before it answers, perhaps on a slow or busy disk.
ANSWER_SECONDS = 600.0


async def repair_log(
    cluster: Cluster, topic: str, partition: int, dry_run: bool, cut: bool, accept_at: int | None = None
) -> AsyncIterator[RepairResponse]:
    """Yield the leader's answers, about a segment each, from the log's start to its end at the first answer.

    Without a leader the first broker that was given answers. With ``accept_at`` a lost log begins again at that
    position. Raises BrokerUnavailable, UnknownTopic, WrongPartition, or another error that the broker answers.
    """
    position = -1 if accept_at is None else accept_at
    end: int | None = None
    with cluster.doubting(topic):
        refusal: WrongPartition | None = None
        try:
            link = await cluster.find_keeper(topic, partition)
        except WrongPartition as error:
            # Without a leader the broker whose address was given may have lost its log, as all others have.
            link, refusal = cluster.given_first(), error
        connection = await link.get()
        while end is None or position < end:
            request = Repair(topic, partition, dry_run, cut, position, accept_at is not None)
            response: RepairResponse = await link.ask(connection, request, ANSWER_SECONDS)
            if refusal is not None and response.error == WrongPartition.code:
                raise refusal
            if response.error:
                raise error_for_code(response.error, response.text)
            yield response
            end = response.end if end is None else end
            if response.checked_to <= position:
                return
            position = response.checked_to
