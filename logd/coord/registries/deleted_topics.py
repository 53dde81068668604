"""The deletion of topics: a deleted topic leaves a note for the brokers that still store parts of it.

/brokers/deleted/<uuid>     {"topic": "<topic>", "brokers": [0, 2]}: brokers that still store parts of the topic
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from logd.checkedjson import excerpt, load_json, whole_number
from logd.coord import paths
from logd.coord.errors import BadArguments, BadVersion, DataInconsistency, NodeExists, NoNode, NotEmpty
from logd.coord.interfaces import ICoordination
from logd.coord.records import Create, Delete, Operation
from logd.coord.registries.stored_ends import removal_of_ends
from logd.coord.registries.topics import ATTEMPTS, TopicClaim, decode_entry, unreadable
from logd.errors import UnknownTopic

#: Operations in one multi, which keeps it far below ZooKeeper's limit of 1 MiB.
BATCH = 1000
#: The most groups that one sentence names.
_NAMED = 5


async def delete_topic(coordination: ICoordination, name: str) -> None:
    """Delete the topic's node and every group's positions in it, and leave the note for the brokers that store it.

    Raises UnknownTopic, CoordinationError: DataInconsistency for an entry that cannot be read, and BadVersion, with the
    remedy, if others change the topic again and again meanwhile. After a lost answer the topic may be gone.
    """
    try:
        path = paths.topic(name)
    except ValueError as error:
        raise UnknownTopic(f"there is no topic {excerpt(name)}: {error}") from None
    claim = TopicClaim(coordination, name)
    try:
        await _delete(coordination, name, path, claim)
    finally:
        claim.release()


async def _delete(coordination: ICoordination, name: str, path: str, claim: TopicClaim) -> None:
    #: The nodes that the former attempt was to remove, and has not.
    former: set[str] = set()
    #: Nodes of positions and changes that came or went between two attempts, and the deletion's note if it is there.
    disturbing: set[str] = set()
    for attempt in range(ATTEMPTS):
        try:
            await claim.make()
            data, stat = await coordination.get(path)
        except (NoNode, BadArguments):  # of the latter, no node can have such a name
            raise UnknownTopic(f"there is no topic {excerpt(name)}") from None
        try:
            entry = decode_entry(name, data)
        except ValueError as error:
            raise DataInconsistency(unreadable(name, error), path) from error
        brokers = sorted({broker for listed in entry.partitions.values() for broker in listed})
        note = json.dumps({"topic": name, "brokers": brokers}).encode()
        await _make_parent(coordination)
        doomed = [each for each in await _below(coordination, path) if each != claim.path]
        for group in await _children(coordination, paths.CONSUMERS):
            for positions in (paths.group_offsets(group, name), paths.group_metadata(group, name)):
                doomed += [*await _below(coordination, positions), *await _itself(coordination, positions)]
        if entry.replicated:
            for request in (paths.election(name), paths.reassignment(name)):
                doomed += await _itself(coordination, request)
        if attempt:
            disturbing |= former.symmetric_difference(doomed)
        former = set(doomed)
        operations: list[Operation] = [Delete(each) for each in doomed]
        try:
            while len(operations) > BATCH:
                await coordination.multi([claim.check(), *operations[:BATCH]])
                former.difference_update(each.path for each in operations[:BATCH])
                del operations[:BATCH]
            await coordination.multi(
                [
                    *operations,
                    Create(paths.deleted_topic(entry.uuid), note),
                    claim.removal(),
                    Delete(path, stat.version),
                ]
            )
        except (NoNode, NotEmpty, BadVersion, NodeExists) as error:
            claim.doubt()
            if isinstance(error, NodeExists):
                disturbing.add(paths.deleted_topic(entry.uuid))
            continue  # a position was committed, or the topic deleted by another: read again
        claim.removed()
        return
    raise BadVersion(_reason(disturbing), path)


def _reason(disturbing: Iterable[str]) -> str:
    """Return the reason why a topic was not deleted, and the remedy, by the nodes that have kept it from that."""
    note = next((each for each in disturbing if each.startswith(f"{paths.DELETED_TOPICS}/")), None)
    if note is not None:
        return f"the coordination tree notes that it is deleted already: remove {note} with a ZooKeeper client"
    groups = sorted({each.split("/")[2] for each in disturbing if each.startswith(f"{paths.CONSUMERS}/")})
    if not groups:
        return (
            "other brokers are changing it at the same time (its settings, its partitions or their in-sync replicas): "
            "delete it again when they have done so"
        )
    many = len(groups) > 1
    named = ", ".join(groups[:_NAMED]) + (f" and {len(groups) - _NAMED} more" if len(groups) > _NAMED else "")
    return (
        f"group{'s' * many} {named} commit{'s' * (not many)} positions in it at the same time: stop "
        f"{'their' if many else 'its'} consumers, and delete it again"
    )


async def brokers_to_remove(coordination: ICoordination, uuid: str) -> tuple[int, ...] | None:
    """Return the brokers that still store parts of a deleted topic; None when no such deletion is known.

    Raises CoordinationError, and ValueError for an invalid note.
    """
    path = paths.deleted_topic(uuid)
    try:
        data, _ = await coordination.get(path)
    except NoNode:
        return None
    return tuple(_read_note(path, data)["brokers"])


async def registered_again(coordination: ICoordination, uuid: str, note: object) -> str | None:
    """Return the name of the deleted topic of a note if the tree has that very topic all the same; None if not.

    In a tree that was lost, a broker that was away when the topic was deleted registers it again, and a restored note
    does not belong beside it. Raises CoordinationError.
    """
    name = note.get("topic") if isinstance(note, dict) else None
    if not isinstance(name, str):
        return None
    try:
        data, _ = await coordination.get(paths.topic(name))
        return name if decode_entry(name, data).uuid == uuid else None
    except (NoNode, ValueError):
        return None


async def removed_by(coordination: ICoordination, uuid: str, broker: int) -> None:
    """Record that this broker has removed what it stored of a deleted topic.

    The last broker removes the note, and with it the topic's stored ends, unless the topic was registered again. Raises
    CoordinationError: BadVersion if these nodes change again and again. Raises ValueError for an invalid note.
    """
    path = paths.deleted_topic(uuid)
    attempts, listed = 0, None
    while True:
        try:
            data, stat = await coordination.get(path)
        except NoNode:
            return
        value = _read_note(path, data)
        # The next look is a first one if another broker was faster: all of them remove the topic at the same time.
        attempts, listed = attempts + 1 if value["brokers"] == listed else 1, value["brokers"]
        value["brokers"] = left = [each for each in listed if each != broker]
        if left and left == listed:
            return  # as after a lost answer: to write the note again would make the attempts of others fail
        try:
            if left:
                await coordination.set(path, json.dumps(value).encode(), stat.version)
            else:
                again = await registered_again(coordination, uuid, value)
                ends = await removal_of_ends(coordination, uuid) if again is None else []
                await coordination.multi([*ends, Delete(path, stat.version)])
        except (NoNode, BadVersion, NotEmpty) as error:
            if attempts == ATTEMPTS:
                raise BadVersion(f"broker {broker} cannot be struck out of {path}: {error}", path) from error
            continue
        return


def _read_note(path: str, data: bytes) -> dict[str, Any]:
    try:
        value = load_json(data)
        if not isinstance(value, dict) or not isinstance(value.get("brokers"), list):
            raise ValueError(excerpt(value))
        value["brokers"] = list(map(whole_number, value["brokers"]))
    except ValueError as error:
        raise ValueError(f"{path[:300]} is no note of a deleted topic: {error}") from None
    return value


async def _make_parent(coordination: ICoordination) -> None:
    with suppress(NodeExists):
        await coordination.create(paths.DELETED_TOPICS, makepath=True)


async def _children(coordination: ICoordination, path: str) -> list[str]:
    try:
        return await coordination.get_children(path)
    except NoNode:
        return []


async def _itself(coordination: ICoordination, path: str) -> list[str]:
    return [path] if await coordination.exists(path) is not None else []


async def _below(coordination: ICoordination, path: str) -> list[str]:
    """Return all nodes below a node, deepest first."""
    found = []
    for name in await _children(coordination, path):
        child = f"{path}/{name}"
        found += [*await _below(coordination, child), child]
    return found
