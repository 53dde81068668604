"""Changes a group from outside: moves its positions, or removes the group.

**Moving the positions of a live group.** The new position is written over the version that was read, so the owner's
next commit meets another version and fails: the owner never overwrites the new position (see registries.offsets).
Each position is written twice. A commit leaves the next version and a move leaves the one after it, so an owner that
does not know whether its last commit succeeded never takes a move to that same position for its own commit (see
claims.py). The same transaction also writes the group's own node, which every member watches, so that an owner with
nothing to commit learns of the move. All members then stop, commit what is not reset, release, claim again, and begin
at the new positions. A message that an owner was delivering at that moment is delivered completely.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from logd.coord import paths
from logd.coord.errors import BadVersion, NodeExists, NoNode, NotEmpty
from logd.coord.groups.inspection import GroupEntry, read_group
from logd.coord.interfaces import ICoordination
from logd.coord.records import Create, Delete, Operation, SetData
from logd.coord.registries.offsets import Offset, OffsetRegistry, encode_position
from logd.errors import LogdError
from logd.plurals import counted
from logd.topic import TopicPartition

#: Operations in one transaction, which keeps it far below ZooKeeper's limit of 1 MiB.
BATCH = 1000
#: Attempts at a deletion that meets concurrent changes.
ATTEMPTS = 5


class GroupLive(LogdError):
    """The group has live consumers, and the operation is for groups at rest."""


class GroupChanged(LogdError):
    """A position was committed, or a partition claimed, between the read and the write: nothing was changed."""


async def move_positions(
    coordination: ICoordination,
    group: str,
    seen: Mapping[TopicPartition, Offset | None],
    positions: Mapping[TopicPartition, int],
) -> None:
    """Write new positions over those that were ``seen``, in transactions of up to five hundred partitions.

    Raises GroupChanged if a position or version is another by now, and CoordinationError. With more than five hundred
    partitions, those of earlier transactions have been moved by then.
    """
    registry = OffsetRegistry(coordination, group)
    for parent in registry.parents({where.topic for where in positions}):
        with suppress(NodeExists):
            await coordination.create(parent, makepath=True)
    places = sorted(positions)
    for at in range(0, len(places), BATCH // 2):
        operations: list[Operation] = []
        for where in places[at : at + BATCH // 2]:
            found = seen.get(where)
            if found is None:
                operations.append(Create(registry.path(where), encode_position(positions[where])))
            else:
                operations += (registry.commit(where, positions[where], found.version + more) for more in (0, 1))
        try:
            await coordination.multi([*operations, SetData(paths.group(group), b"")])
        except (BadVersion, NodeExists, NoNode) as error:
            raise GroupChanged(
                f"group {group!r} has changed meanwhile ({error.path}), so it was left as it is: try again"
            ) from error


def check_no_kafka_members(entry: GroupEntry) -> None:
    """Raise GroupLive if the group has members among Kafka's clients, which learn of no change from outside."""
    if entry.coordinator is not None:
        raise GroupLive(
            f"group {entry.name!r} has members among Kafka's clients, which broker {entry.coordinator} coordinates: "
            "stop them first"
        )


def check_at_rest(entry: GroupEntry) -> None:
    """Raise GroupLive for a live group: its consumers would interfere with a deletion."""
    check_no_kafka_members(entry)
    if entry.live:
        raise GroupLive(
            f"group {entry.name!r} is live, with {counted(len(entry.consumers), 'consumer')} and "
            f"{counted(len(entry.owners), 'owned partition')}: stop them first"
        )


async def delete_group(coordination: ICoordination, group: str) -> int:
    """Remove everything about a group at rest; return the number of positions removed.

    Raises UnknownGroup, GroupLive, GroupChanged and CoordinationError. A consumer that joins meanwhile keeps the group
    from being removed. A group of a few hundred positions is removed whole; a larger one may then lose some of them.
    """
    for _ in range(ATTEMPTS):
        entry = await read_group(coordination, group)
        check_at_rest(entry)
        doomed = [*await _below(coordination, paths.group(group)), paths.group(group)]
        # The parents of the nodes that live consumers create go first: a consumer that joins now makes the rest fail.
        doomed.sort(key=lambda path: path.startswith(f"{paths.group(group)}/offsets"))
        root = doomed.index(paths.group(group))
        doomed.append(doomed.pop(root))
        try:
            for at in range(0, len(doomed), BATCH):
                await coordination.multi([Delete(path) for path in doomed[at : at + BATCH]])
        except (NoNode, NotEmpty):
            continue
        return len(entry.offsets)
    raise GroupChanged(f"group {group!r} changes faster than it can be removed: stop its consumers")


async def _below(coordination: ICoordination, path: str) -> list[str]:
    """Return all nodes below a node, deepest first."""
    found: list[str] = []
    try:
        names = await coordination.get_children(path)
    except NoNode:
        return found
    for name in names:
        child = f"{path}/{name}"
        found += [*await _below(coordination, child), child]
    return found
