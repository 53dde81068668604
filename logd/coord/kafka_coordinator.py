"""The claim of the broker that coordinates a group's Kafka clients: ``/consumers/<group>/coordinator``, its id.

The node exists while the group has such members. Native consumers are members of groups without it.
"""

from __future__ import annotations

from logd.checkedjson import decimal
from logd.coord import paths
from logd.coord.errors import NoNode
from logd.coord.interfaces import ICoordination


async def read_coordinator(coordination: ICoordination, group: str) -> int | None:
    """Return the id of the broker that coordinates a group; None if no broker does, -1 if its claim cannot be read.

    Raises CoordinationError.
    """
    try:
        data, _ = await coordination.get(paths.group_coordinator(group))
    except NoNode:
        return None
    return decode_coordinator(data)


def decode_coordinator(data: bytes) -> int:
    """Return the broker that a claim names, -1 if it cannot be read."""
    try:
        return decimal(data.decode())
    except ValueError:
        return -1
