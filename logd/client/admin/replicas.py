"""Requests about the replicas of partitions."""

from __future__ import annotations

from typing import Any

from logd.client.cluster.cluster import Cluster
from logd.deferreds.gathering import gather_some
from logd.errors import BrokerUnavailable, CoordinationUnavailable, UnsupportedVersion, error_for_code
from logd.protocol.requests.replicas.describe_replicas import (
    DescribeReplicas,
    DescribeReplicasResponse,
    DescribeReplicasV1,
)

#: Brokers that are asked at a time.
ASKED_AT_ONCE = 50


async def ask(cluster: Cluster, request: Any) -> Any:
    """Send a request to any broker, and return its response. Raises BrokerUnavailable, and what the broker answers."""
    response = await cluster.ask_any(request)
    if response.error:
        raise error_for_code(response.error, response.text)
    return response


async def describe_replicas(cluster: Cluster, topic: str) -> dict[int, DescribeReplicasResponse]:
    """Return the description of each live broker that answers. Raises UnknownTopic, BrokerUnavailable."""
    brokers = (await cluster.metadata((topic,))).brokers

    async def describe(host: str, port: int) -> DescribeReplicasResponse | None:
        try:
            response: DescribeReplicasResponse = await cluster.ask_at(host, port, DescribeReplicasV1(topic))
            if response.error == UnsupportedVersion.code:  # a broker of an earlier release
                response = await cluster.ask_at(host, port, DescribeReplicas(topic))
        except BrokerUnavailable:
            return None
        if response.error == CoordinationUnavailable.code:
            return None
        if response.error:
            raise error_for_code(response.error, response.text)
        return response

    found = await gather_some((describe(each.host, each.port) for each in brokers), ASKED_AT_ONCE)
    return {each.id: answer for each, answer in zip(brokers, found, strict=True) if answer is not None}
