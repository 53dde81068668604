"""Requests to the leader of a partition about its log."""

from __future__ import annotations

from collections.abc import Sequence

from logd.client.cluster.cluster import Cluster
from logd.deferreds.gathering import gather_some
from logd.errors import error_for_code
from logd.protocol.requests.describe_log import DescribeLog, DescribeLogResponse

#: Logs described at a time: enough to save round trips, few enough for any broker's limits.
DESCRIBED_AT_ONCE = 50


async def describe_log(
    cluster: Cluster, topic: str, partition: int, positions: tuple[int, ...] = (), time: int = -1
) -> DescribeLogResponse:
    """Return the leader's description of its log, trying once.

    Raises BrokerUnavailable when the leader cannot be reached, UnknownTopic, WrongPartition, or what it answers.
    """
    with cluster.doubting(topic):
        link = await cluster.find_keeper(topic, partition)
        connection = await link.get()
        response: DescribeLogResponse = await link.ask(
            connection, DescribeLog(topic, partition, positions, time), cluster.settings.request_timeout
        )
        if response.error:
            raise error_for_code(response.error, response.text)
    return response


async def describe_logs(
    cluster: Cluster, topic: str, partitions: Sequence[int], time: int = -1
) -> dict[int, DescribeLogResponse]:
    """Return the leaders' descriptions of these partitions' logs. Raises what describe_log raises."""
    found = await gather_some((describe_log(cluster, topic, each, time=time) for each in partitions), DESCRIBED_AT_ONCE)
    return dict(zip(partitions, found, strict=True))
