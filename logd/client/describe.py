"""Asks the leader of a partition about its log."""

from __future__ import annotations

from logd.client.cluster import Cluster
from logd.errors import error_for_code
from logd.protocol.describe_log import DescribeLog, DescribeLogResponse


async def describe_log(
    cluster: Cluster, topic: str, partition: int, positions: tuple[int, ...] = (), time: int = -1
) -> DescribeLogResponse:
    """Return what the leader says, trying once.

    Raises BrokerUnavailable when it cannot be reached, UnknownTopic, WrongPartition, or what else it answers.
    """
    if cluster.known(topic) is None and cluster.settings.discover:
        await cluster.read(topic)
    link = cluster.keeper(topic, partition)
    connection = await link.get()
    response: DescribeLogResponse = await link.ask(
        connection, DescribeLog(topic, partition, positions, time), cluster.settings.request_timeout
    )
    if response.error:
        raise error_for_code(response.error, response.text)
    return response
