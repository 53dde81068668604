"""Stored ends: the position up to which each broker has stored a topic's partitions, so that no id is reused.

/brokers/stored/<topic uuid>/<broker id>    {"instance": "<uuid of the data directory>", "ends": {"0": 4096, ...}}

Partitions that another data directory has stored, and whose loss no operator has accepted yet, are named with its uuid:
"others": {"1": "<uuid>"}; without such partitions the member is left out.

"given_up": [0, 1] names partitions whose loss an operator has accepted before the broker found it, by restoring a
backup of the tree: the broker begins them again by itself. An earlier release, which passes the member over, waits for
the operator.

An end is a position up to which the partition was flushed. A broker names a partition, with end 0, once the log's files
are durable and before the log accepts messages; so a named partition without a log is a loss, even at end 0. The node
is rewritten while logs grow, and no log grows past the ``growth_limit`` of its end before that. After a loss a log
begins at least ``GROWTH`` above the greatest end known, which is above every position that was ever assigned.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from attrs import field, frozen

from logd.checkedjson import decimal, decimals, excerpt, load_json, whole_number
from logd.coord import paths
from logd.coord.errors import NodeExists, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.records import Create, Delete, Operation

#: A log never reaches this far above its stored end.
GROWTH = 1 << 39
#: Limits are multiples of this. A broker that cannot reach the tree derives a limit from the end of a log; that limit
#: is never above the limit derived from the stored end.
_BLOCK = GROWTH // 2
#: A log that ends beyond this has no room for another start: positions end at 2^63.
LARGEST_END = (1 << 63) - 4 * GROWTH
#: Subtracted from each limit: appends before producers wait, bounded by unflushed.bytes, stay far below this.
_MARGIN = 1 << 34


@frozen
class StoredEnds:
    """The value of a node: ``ends`` holds a flushed position for each partition named."""

    instance: str
    ends: Mapping[int, int]
    #: Data directories of the partitions that ``instance`` has not stored.
    others: Mapping[int, str] = field(factory=dict)
    #: Partitions whose loss is accepted already.
    given_up: frozenset[int] = frozenset()

    def instance_of(self, number: int) -> str:
        """Return the data directory that has stored a partition."""
        return self.others.get(number, self.instance)

    def encode(self) -> bytes:
        """Return the node's value."""
        ends = {str(number): end for number, end in sorted(self.ends.items())}
        value: dict[str, object] = {"instance": self.instance, "ends": ends}
        if self.others:
            value["others"] = {str(number): instance for number, instance in sorted(self.others.items())}
        if self.given_up:
            value["given_up"] = sorted(self.given_up)
        return json.dumps(value).encode()

    @classmethod
    def decode(cls, path: str, data: bytes) -> StoredEnds:
        """Decode the value of the node ``path``; raise ValueError for anything that ``encode`` does not produce."""
        try:
            value = load_json(data)
            instance, ends = value["instance"], value["ends"].items()
            others = {decimal(number): other for number, other in value.get("others", {}).items()}
            for each in (instance, *others.values()):
                if type(each) is not str:
                    raise ValueError(f"{excerpt(each)} is no instance")
            stored = {decimal(number): whole_number(end, LARGEST_END) for number, end in ends}
            given_up = frozenset(map(whole_number, value.get("given_up", ())))
            return cls(instance, stored, others, given_up)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ValueError(f"{path[:300]} does not hold stored ends: {error}") from None


def growth_limit(stored: int) -> int:
    """Return the position above which a log with this stored end takes no messages."""
    return (stored // _BLOCK + 2) * _BLOCK - _MARGIN


def growth_limit_unknown(end: int) -> int:
    """Return the limit of a log that ended at ``end`` when the broker started and whose stored end is not known.

    It is never above the ``growth_limit`` of any stored end with which the log could have come to ``end``.
    """
    return (end // _BLOCK + 1) * _BLOCK - _MARGIN


async def read_ends(coordination: ICoordination, uuid: str, broker: int) -> tuple[StoredEnds, int] | None:
    """Return the stored ends of a topic on one broker with the node's version, None when there is no node.

    Raises CoordinationError, and ValueError for a node that cannot be read.
    """
    path = paths.stored_ends(uuid, broker)
    try:
        data, stat = await coordination.get(path)
    except NoNode:
        return None
    return StoredEnds.decode(path, data), stat.version


async def read_all_ends(coordination: ICoordination, uuid: str) -> dict[int, StoredEnds]:
    """Return the stored ends of a topic by broker. Raises CoordinationError, and ValueError as ``read_ends``."""
    try:
        names = await coordination.get_children(paths.stored_topic(uuid))
    except NoNode:
        return {}
    found = {}
    for broker in decimals(names):
        read = await read_ends(coordination, uuid, broker)
        if read is not None:
            found[broker] = read[0]
    return found


async def write_ends(
    coordination: ICoordination, uuid: str, broker: int, value: StoredEnds, version: int | None
) -> int:
    """Write a broker's node at ``version`` (None: create it); return its new version.

    Raises CoordinationError: BadVersion, NodeExists and NoNode when the node was changed meanwhile. After a
    ConnectionLoss or OperationTimeout it may have been written.
    """
    path, data = paths.stored_ends(uuid, broker), value.encode()
    if version is not None:
        return (await coordination.set(path, data, version)).version
    try:
        await coordination.multi([Create(paths.stored_topic(uuid)), Create(path, data)])
    except (NoNode, NodeExists):
        await coordination.create(path, data, makepath=True)
    return 0


async def removal_of_ends(coordination: ICoordination, uuid: str) -> list[Operation]:
    """Return the operations that remove all stored ends of a topic, for a multi with its deletion.

    Raises CoordinationError.
    """
    parent = paths.stored_topic(uuid)
    try:
        names = await coordination.get_children(parent)
    except NoNode:
        return []
    return [*(Delete(f"{parent}/{name}") for name in names), Delete(parent)]
