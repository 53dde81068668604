"""Changes a group from outside: moves its positions, removes it.

**Moving the positions of a live group.** The new position is written over the version that was seen, so the owner's
next commit meets another version and fails: it never writes its own place over it (see registries.offsets). It is
written twice: a commit leaves the next version, a move the one after it, so that an owner that does not know whether
its last commit was done never takes a move to just that position for it (see holdings). So that an owner that has
nothing to commit hears of it too, the same transaction writes the group's own node, which every member watches: all
stop, commit what is not reset, give back and claim again, and so begin at the new positions. What an owner was handing
over in that moment is handed over to its end.
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
from logd.topic import TopicPartition

#: Operations in one transaction, so that it stays far below the 1 MiB that ZooKeeper takes.
BATCH = 1000
#: How often a deletion is begun again that met a change.
ATTEMPTS = 5


class GroupLive(LogdError):
    """A group's consumers are live, and what was asked for is for groups at rest."""


class GroupChanged(LogdError):
    """A position was committed, or a partition claimed, between the look and the change: nothing was changed."""


async def move_positions(
    coordination: ICoordination,
    group: str,
    seen: Mapping[TopicPartition, Offset | None],
    positions: Mapping[TopicPartition, int],
) -> None:
    """Write new positions over what was ``seen``, in transactions of up to five hundred partitions.

    Raises GroupChanged where another position or version is there by now, and CoordinationError. With more than
    five hundred partitions those of earlier transactions are moved by then.
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


def check_at_rest(entry: GroupEntry) -> None:
    """Raise GroupLive for a group that is live: its consumers are in the way of a deletion."""
    if entry.live:
        raise GroupLive(
            f"group {entry.name!r} is live, with {len(entry.consumers)} consumers and {len(entry.owners)} partitions "
            "owned: stop them first"
        )


async def delete_group(coordination: ICoordination, group: str) -> int:
    """Remove everything about a group at rest; return how many positions that were.

    Raises UnknownGroup, GroupLive, GroupChanged and CoordinationError. A consumer that joins meanwhile keeps the group
    from being removed; a group of some hundred positions goes as a whole, a larger one may lose a part of them then.
    """
    for _ in range(ATTEMPTS):
        entry = await read_group(coordination, group)
        check_at_rest(entry)
        doomed = [*await _below(coordination, paths.group(group)), paths.group(group)]
        # The parents of what live consumers make go first: whoever joins from now on is in the way of the rest.
        doomed.sort(key=lambda path: path.startswith(f"{paths.group(group)}/offsets"))
        root = doomed.index(paths.group(group))
        doomed.append(doomed.pop(root))
        try:
            for at in range(0, len(doomed), BATCH):
                await coordination.multi([Delete(path) for path in doomed[at : at + BATCH]])
        except (NoNode, NotEmpty):
            continue
        return len(entry.offsets)
    raise GroupChanged(f"group {group!r} changes faster than it can be removed: stop who uses it")


async def _below(coordination: ICoordination, path: str) -> list[str]:
    """All nodes below one, deepest first."""
    found: list[str] = []
    try:
        names = await coordination.get_children(path)
    except NoNode:
        return found
    for name in names:
        child = f"{path}/{name}"
        found += [*await _below(coordination, child), child]
    return found
