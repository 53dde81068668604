"""Stores an import's positions under a consumer group's name, so that its lag is shown beside that of other groups.

The group has no consumers: the target alone decides what has been imported, and these positions are for display.
"""

from __future__ import annotations

from collections.abc import Mapping

from twisted.internet.defer import Deferred

from logd.cli.tree_session import tree_settings
from logd.client.admin.group_preparation import prepare_group
from logd.client.blocking.reactor_thread import running_reactor, wait_there
from logd.coord import paths
from logd.coord.errors import NodeExists, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.kafka_coordinator import read_coordinator
from logd.coord.zookeeper.client import ZooKeeperCoordination
from logd.errors import LogdError
from logd.net.credentials import credentials_of_environment

#: Seconds to reach the tree, and for each call on it.
_PATIENCE = 15.0

#: Topic and partition -> the id of the next message.
Positions = Mapping[tuple[str, int], int]


class GroupInUse(LogdError):
    """The group has live consumers, which store its positions themselves."""


async def store_positions(coordination: ICoordination, group: str, positions: Positions) -> None:
    """Store a group's positions.

    Raises GroupInUse when the group has consumers, ValueError for a name that no group can have, and the errors of
    calls on the tree.
    """
    try:
        consumers = await coordination.get_children(paths.group_consumers(group), timeout=_PATIENCE)
    except NoNode:
        consumers = []
    if consumers:
        raise GroupInUse(f"group {group!r} has consumers ({consumers[0]}): give the import a group of its own, or none")
    if await read_coordinator(coordination, group) is not None:
        raise GroupInUse(
            f"group {group!r} has members among Kafka's clients: give the import a group of its own, or none"
        )
    for (topic, partition), position in sorted(positions.items()):
        await _store(coordination, paths.group_offset(group, topic, partition), b"%d" % position)


async def _store(coordination: ICoordination, path: str, data: bytes) -> None:
    try:
        await coordination.set(path, data, timeout=_PATIENCE)
    except NoNode:
        try:
            await coordination.create(path, data, makepath=True, timeout=_PATIENCE)
        except NodeExists:  # another client created it first, such as an import of another topic
            await coordination.set(path, data, timeout=_PATIENCE)


def store(zookeeper: str, group: str, positions: Positions) -> None:
    """Connect to the tree at ``zookeeper``, store the positions, disconnect. Blocks; raises as ``store_positions``."""
    reactor = running_reactor()

    async def work() -> None:
        coordination = ZooKeeperCoordination(reactor, tree_settings(zookeeper))
        try:
            await coordination.connect(timeout=_PATIENCE)
            credentials = credentials_of_environment()
            if credentials is not None:
                await coordination.authenticate(credentials.user, credentials.password)
            await prepare_group(reactor, coordination, group)
            await store_positions(coordination, group, positions)
        finally:
            await coordination.close()

    wait_there(reactor, lambda: Deferred.fromCoroutine(work()))
