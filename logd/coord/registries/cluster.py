"""The cluster's uuid, at /cluster: {"uuid": "<uuid>"}. The first broker makes it, and it never changes."""

from __future__ import annotations

import json
import uuid
from contextlib import suppress

from logd.checkedjson import excerpt, load_json
from logd.coord import paths
from logd.coord.errors import NodeExists, NoNode
from logd.coord.interfaces import ICoordination
from logd.topic import is_uuid


async def cluster_uuid(coordination: ICoordination) -> str:
    """Return the cluster's uuid, made if there is none; of several brokers that make one, the first one's stays.

    Raises CoordinationError, and ValueError for a node that cannot be read.
    """
    while True:
        try:
            data, _ = await coordination.get(paths.CLUSTER)
        except NoNode:
            made = json.dumps({"uuid": str(uuid.uuid4())}).encode()
            with suppress(NodeExists):
                await coordination.create(paths.CLUSTER, made, makepath=True)
            continue  # what the tree has counts, also after a lost answer
        return _decode(data)


async def read_cluster_uuid(coordination: ICoordination) -> str:
    """Return the cluster's uuid; empty while no broker has made it. Raises as ``cluster_uuid`` does."""
    try:
        data, _ = await coordination.get(paths.CLUSTER)
    except NoNode:
        return ""
    return _decode(data)


def _decode(data: bytes) -> str:
    value = load_json(data)
    found = value.get("uuid") if isinstance(value, dict) else None
    if not is_uuid(found):
        raise ValueError(f"{paths.CLUSTER} has no uuid of a cluster: {excerpt(value)}")
    return str(found)
