"""Stores positions under a consumer group's name in the coordination tree, so that its lag shows beside other groups.

Nobody of the group consumes: what was imported is decided by the target alone, and these are told for others to see.
"""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.defer import Deferred

from logd.cli.tree_session import tree_settings
from logd.client.blocking.reactor_thread import running_reactor, wait_there
from logd.coord import paths
from logd.coord.errors import NodeExists, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.zookeeper.client import ZooKeeperCoordination
from logd.errors import LogdError

#: Seconds to reach the tree, and for each call on it.
_PATIENCE = 15.0

#: Topic and partition -> the id of the next message.
Positions = Mapping[tuple[str, int], int]


class GroupInUse(LogdError):
    """Consumers of that name are at work: their positions are theirs."""


async def store_positions(coordination: ICoordination, group: str, positions: Positions) -> None:
    """Store a group's positions.

    Raises GroupInUse where the group has consumers, ValueError for a name that no group can have, and what calls on
    the tree fail with.
    """
    try:
        consumers = await coordination.get_children(paths.group_consumers(group), timeout=_PATIENCE)
    except NoNode:
        consumers = []
    if consumers:
        raise GroupInUse(f"group {group!r} has consumers ({consumers[0]}): give the import a group of its own, or none")
    for (topic, partition), position in sorted(positions.items()):
        await _store(coordination, paths.group_offset(group, topic, partition), b"%d" % position)


async def _store(coordination: ICoordination, path: str, data: bytes) -> None:
    try:
        await coordination.set(path, data, timeout=_PATIENCE)
    except NoNode:
        try:
            await coordination.create(path, data, makepath=True, timeout=_PATIENCE)
        except NodeExists:  # somebody was faster, an import of another topic's group say
            await coordination.set(path, data, timeout=_PATIENCE)


def store(zookeeper: str, group: str, positions: Positions) -> None:
    """Connect to the tree at ``zookeeper``, store, and disconnect; blocks. Raises as ``store_positions`` does."""
    reactor = running_reactor()

    async def work() -> None:
        coordination = ZooKeeperCoordination(reactor, tree_settings(zookeeper))
        try:
            await coordination.connect(timeout=_PATIENCE)
            await store_positions(coordination, group, positions)
        finally:
            await coordination.close()

    wait_there(reactor, lambda: Deferred.fromCoroutine(work()))
