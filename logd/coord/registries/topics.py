"""The topics in the tree: creating the node creates the topic, and a deleted topic leaves a note.

/brokers/topics/<topic>     the topic's entry (logd/topic.py)
/brokers/deleted/<uuid>     {"topic": "<topic>", "brokers": [0, 2]}: brokers that still store parts of the topic
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any, NamedTuple

from logd.checkedjson import excerpt, load_json, whole_number
from logd.coord import paths
from logd.coord.errors import (
    BadVersion,
    ConnectionLoss,
    CoordinationError,
    DataInconsistency,
    NodeExists,
    NoNode,
    NotEmpty,
    OperationTimeout,
    SessionExpired,
)
from logd.coord.interfaces import ICoordination
from logd.coord.partition_state import PartitionState
from logd.coord.records import Check, Create, Delete, Operation, SetData
from logd.coord.registries.child_cache import ChildCache
from logd.coord.registries.stored_ends import removal_of_ends
from logd.errors import InvalidRequest, InvalidTopic, TopicExists, UnknownTopic
from logd.interfaces import Clock
from logd.plurals import counted
from logd.topic import TopicEntry, check_topic_name

#: Attempts when others change the node meanwhile, or the answer is lost.
ATTEMPTS = 5
#: Returns the states of new partitions of a topic. Raises WireErrors.
StatesOf = Callable[[TopicEntry, Iterable[int]], Mapping[int, PartitionState]]
#: Operations in one multi, which keeps it far below ZooKeeper's limit of 1 MiB.
BATCH = 1000


#: Bytes of a topic's entry: ZooKeeper refuses requests above 1 MiB, other brokers' included.
MOST_ENTRY_BYTES = 1_000_000


class ChangeUncertain(CoordinationError):
    """The answer to a change of a topic was lost, and the tree does not tell whether the change was made."""

    def __init__(self, name: str, reason: object) -> None:
        super().__init__(
            f"no answer tells whether the change was made ({reason}): describe the topic before another attempt",
            paths.topic(name),
        )


def encode_entry(entry: TopicEntry) -> bytes:
    """Return the value of a topic's node. Raises InvalidRequest, which names the limit, if it has too many bytes."""
    data = json.dumps(entry.to_json()).encode()
    if len(data) > MOST_ENTRY_BYTES:
        number = len(entry.partitions)
        raise InvalidRequest(
            f"{counted(number, 'partition')} of one topic take {counted(len(data), 'byte')} in its node of the "
            f"coordination tree, and {MOST_ENTRY_BYTES:,} are allowed, which is enough for about "
            f"{counted(number * MOST_ENTRY_BYTES // len(data) // 100 * 100, 'partition')}: use several topics"
        )
    return data


def decode_entry(name: str, data: bytes) -> TopicEntry:
    """Decode the value of the node of topic ``name``; raise ValueError for an invalid value or name."""
    try:
        check_topic_name(name)
    except InvalidTopic as error:
        raise ValueError(str(error)) from None
    return TopicEntry.from_json(load_json(data))


async def create_topic(
    coordination: ICoordination, name: str, entry: TopicEntry, states: Mapping[int, PartitionState] | None = None
) -> None:
    """Create the topic's node; of several concurrent callers one succeeds. Raises TopicExists, CoordinationError.

    ``states`` are those of the partitions of a replicated topic, created with it.

    A lost answer is no failure: the uuid identifies our own node. After OperationTimeout the node may exist.
    """
    path, data = paths.topic(name), encode_entry(entry)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            if states is None:
                await coordination.create(path, data, makepath=True)
            else:
                await coordination.multi([Create(path, data), *creation_of_states(name, entry.uuid, states)])
        except NoNode:
            with suppress(NodeExists):
                await coordination.create(paths.BROKER_TOPICS, makepath=True)
        except NodeExists:
            try:
                found = await _read_or_none(coordination, name)
            except ValueError as error:
                raise TopicExists(
                    f"topic {name!r} exists already, and cannot be used: {_unreadable(name, error)}"
                ) from error
            if found is None:
                continue  # deleted meanwhile
            if found.uuid != entry.uuid:
                raise TopicExists(f"topic {name!r} exists already") from None
            return
        except ConnectionLoss:
            if attempt == ATTEMPTS:
                raise
        else:
            return
    raise TopicExists(f"topic {name!r} is created and deleted faster than it can be read")


def creation_of_states(
    topic: str, uuid: str, states: Mapping[int, PartitionState], *, first: bool = True
) -> list[Operation]:
    """Return the operations that create the states of a topic's partitions, behind that of the topic's node.

    ``first``: the topic had none before.
    """
    operations: list[Operation] = []
    if first:
        operations += [Create(f"{paths.topic(topic)}/partitions"), Create(paths.topic_identity(topic, uuid))]
    for number, state in states.items():
        path = paths.partition_state(topic, number)
        operations += [Create(path.rpartition("/")[0]), Create(path, state.encode())]
    return operations


def check_identity(topic: str, uuid: str) -> Check:
    """Return the operation that fails with NoNode unless the replicated topic has this uuid.

    A node that is made again begins with version 0. So the version of a partition's state does not tell whether it is
    that of the topic that a broker knows, or of one that has the name since.
    """
    return Check(paths.topic_identity(topic, uuid))


async def make_identity(coordination: ICoordination, topic: str, uuid: str) -> bool:
    """Make what ``check_identity`` asks for, if an earlier version has created the topic; return whether that was done.

    Raises CoordinationError.
    """
    try:
        data, stat = await coordination.get(paths.topic(topic))
        if decode_entry(topic, data).uuid != uuid:
            return False
        await coordination.multi([Check(paths.topic(topic), stat.version), Create(paths.topic_identity(topic, uuid))])
    except (NoNode, NodeExists, BadVersion, ValueError):
        return False
    return True


async def read_topic(coordination: ICoordination, name: str) -> TopicEntry:
    """Read one topic's entry. Raises UnknownTopic, CoordinationError, and ValueError for an invalid entry."""
    found = await _read_or_none(coordination, name)
    if found is None:
        raise UnknownTopic(f"there is no topic {name!r}")
    return found


class _Unanswered(NamedTuple):
    """A change of a topic's entry that was sent, and whose answer was lost."""

    #: The node's version before the change.
    version: int
    former: TopicEntry
    changed: TopicEntry


async def change_topic(
    coordination: ICoordination,
    name: str,
    change: Callable[[TopicEntry], TopicEntry],
    states: StatesOf | None = None,
) -> tuple[TopicEntry, TopicEntry]:
    """Replace a topic's entry by ``change(entry)``; return the former and the new one.

    ``states`` makes those of the new partitions of a replicated topic, which are created with the change.

    ``change`` is called again where others have changed the entry meanwhile; what it raises is raised. A change whose
    answer was lost is looked for in the tree, and is not made a second time. Raises UnknownTopic, and
    CoordinationError: DataInconsistency for an entry that cannot be read, and ChangeUncertain if the entry may or may
    not be changed.
    """
    path = paths.topic(name)
    unanswered: _Unanswered | None = None
    for attempt in range(1, ATTEMPTS + 1):
        try:
            if unanswered is not None:
                await coordination.sync(path)  # another server of the ensemble may not have the change yet
            data, stat = await coordination.get(path)
            entry = decode_entry(name, data)
        except NoNode:
            raise UnknownTopic(f"there is no topic {name!r}") from None
        except ValueError as error:
            raise DataInconsistency(_unreadable(name, error), path) from error
        except ConnectionLoss as error:
            if attempt == ATTEMPTS:
                raise error if unanswered is None else ChangeUncertain(name, error) from error
            continue
        except CoordinationError as error:
            raise error if unanswered is None else ChangeUncertain(name, error) from error
        if unanswered is not None:
            if entry.uuid != unanswered.former.uuid:  # the topic was deleted, and created again
                unanswered = None
            elif stat.version == unanswered.version + 1 and entry == unanswered.changed:
                return unanswered.former, unanswered.changed
            elif stat.version > unanswered.version + 1:
                raise ChangeUncertain(name, "others have changed it since")
            elif stat.version > unanswered.version:  # by another, which has kept ours from being made
                unanswered = None
        if unanswered is None:
            changed = change(entry)
            if changed == entry:
                return entry, changed
        try:
            added = [number for number in changed.partitions if number not in entry.partitions]
            if changed.replicated and added:
                made = {} if states is None else states(changed, added)
                new = creation_of_states(name, entry.uuid, made, first=False)
                await coordination.multi([SetData(path, encode_entry(changed), stat.version), *new])
            else:
                await coordination.set(path, encode_entry(changed), stat.version)
        except NoNode:
            raise UnknownTopic(f"there is no topic {name!r}") from None
        except BadVersion as error:
            if attempt == ATTEMPTS:
                raise error if unanswered is None else ChangeUncertain(name, error) from error
        except ConnectionLoss as error:
            unanswered = _Unanswered(stat.version, entry, changed)
            if attempt == ATTEMPTS:
                raise ChangeUncertain(name, error) from error
        except (OperationTimeout, SessionExpired) as error:
            raise ChangeUncertain(name, error) from error
        else:
            return entry, changed
    raise AssertionError("the last attempt returns or raises")


async def delete_topic(coordination: ICoordination, name: str) -> None:
    """Delete the topic's node and every group's positions in it, and leave the note for the brokers that store it.

    Raises UnknownTopic, CoordinationError (DataInconsistency for an entry that cannot be read). After a lost answer the
    topic may be gone.
    """
    try:
        path = paths.topic(name)
    except ValueError as error:
        raise UnknownTopic(f"there is no topic {name!r}: {error}") from None
    for _ in range(ATTEMPTS):
        try:
            data, stat = await coordination.get(path)
        except NoNode:
            raise UnknownTopic(f"there is no topic {name!r}") from None
        try:
            entry = decode_entry(name, data)
        except ValueError as error:
            raise DataInconsistency(_unreadable(name, error), path) from error
        brokers = sorted({broker for listed in entry.partitions.values() for broker in listed})
        note = json.dumps({"topic": name, "brokers": brokers}).encode()
        await _make_parent(coordination)
        doomed = await _below(coordination, path)
        for group in await _children(coordination, paths.CONSUMERS):
            for positions in (paths.group_offsets(group, name), paths.group_metadata(group, name)):
                doomed += [*await _below(coordination, positions), *await _itself(coordination, positions)]
        if entry.replicated:
            for request in (paths.election(name), paths.reassignment(name)):
                doomed += await _itself(coordination, request)
        operations: list[Operation] = [Delete(each) for each in doomed]
        try:
            while len(operations) > BATCH:
                await coordination.multi(operations[:BATCH])
                del operations[:BATCH]
            await coordination.multi(
                [*operations, Create(paths.deleted_topic(entry.uuid), note), Delete(path, stat.version)]
            )
        except (NoNode, NotEmpty, BadVersion, NodeExists):
            continue  # a position was committed, or the topic deleted by another: read again
        return
    raise UnknownTopic(f"topic {name!r} changes faster than it can be deleted: stop its consumers")


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


async def removed_by(coordination: ICoordination, uuid: str, broker: int) -> None:
    """Record that this broker has removed what it stored of a deleted topic.

    The last broker removes the note, and with it the topic's stored ends. Raises CoordinationError, and ValueError for
    an invalid note.
    """
    path = paths.deleted_topic(uuid)
    for _ in range(ATTEMPTS):
        try:
            data, stat = await coordination.get(path)
        except NoNode:
            return
        value = _read_note(path, data)
        value["brokers"] = left = [each for each in value["brokers"] if each != broker]
        try:
            if left:
                await coordination.set(path, json.dumps(value).encode(), stat.version)
            else:
                ends = await removal_of_ends(coordination, uuid)
                await coordination.multi([*ends, Delete(path, stat.version)])
        except (NoNode, BadVersion, NotEmpty):
            continue
        return


def watch_topics(
    coordination: ICoordination, clock: Clock, changed: Callable[[str], None] = lambda name: None
) -> ChildCache[TopicEntry]:
    """Return a cache of the topics by name, not started yet."""
    return ChildCache(coordination, clock, paths.BROKER_TOPICS, decode_entry, changed)


def available_partitions(entry: TopicEntry, live: Iterable[int]) -> dict[int, int]:
    """Return PT of the paper's Algorithm 1: each partition with a live broker, and its leader, the first such one."""
    alive = frozenset(live)
    found = {}
    for partition, brokers in sorted(entry.partitions.items()):
        leader = next((broker for broker in brokers if broker in alive), None)
        if leader is not None:
            found[partition] = leader
    return found


def _read_note(path: str, data: bytes) -> dict[str, Any]:
    try:
        value = load_json(data)
        if not isinstance(value, dict) or not isinstance(value.get("brokers"), list):
            raise ValueError(excerpt(value))
        value["brokers"] = list(map(whole_number, value["brokers"]))
    except ValueError as error:
        raise ValueError(f"{path[:300]} is no note of a deleted topic: {error}") from None
    return value


def _unreadable(name: str, error: ValueError) -> str:
    return (
        f"its node {paths.topic(name)} is no topic's entry: {error}; remove that node with a ZooKeeper client; the "
        "brokers that store the topic write theirs"
    )


async def _read_or_none(coordination: ICoordination, name: str) -> TopicEntry | None:
    try:
        data, _ = await coordination.get(paths.topic(name))
    except NoNode:
        return None
    return decode_entry(name, data)


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
