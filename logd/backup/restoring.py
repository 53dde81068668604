"""Writes a backup into a tree: definitions first, topics last, each with the stored ends that keep its positions new.

A topic appears in one transaction with its stored ends, so no broker ever makes a log of it that begins at 0. What was
written before an interruption stays, and the same restoration with ``adding`` goes on with what is missing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

from attrs import define, evolve, field, frozen

from logd.backup.backup_file import Backup
from logd.backup.beginnings import restored_ends, slot_end, slots_since
from logd.backup.contents import SCHEMA_LAST_ID, SCHEMAS, SECURITY
from logd.backup.reading import read_all
from logd.checkedjson import INT64_MAX, decimal, load_json
from logd.coord import paths
from logd.coord.elections import lost_with_the_tree
from logd.coord.errors import CoordinationError, NoAuth, NodeExists, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.records import Create, Delete, Operation
from logd.coord.registries.deleted_topics import registered_again
from logd.coord.registries.producer_ids import decode_next
from logd.coord.registries.stored_ends import StoredEnds, read_all_ends
from logd.coord.registries.topics import creation_of_states, decode_entry
from logd.deferreds.gathering import for_each
from logd.errors import LogdError
from logd.log.recovery.lost_log_replacement import beginning_after
from logd.topic import TopicEntry

#: Nodes that are written at a time.
_AT_ONCE = 50
#: Ids of producers that are left out: more than a cluster gives out between two backups.
_PRODUCER_IDS = 1_000_000
#: The nodes that show that a tree is in use.
_IN_USE = (paths.BROKER_TOPICS, paths.CONSUMERS, paths.USERS, paths.ACCESS_RULES, paths.QUOTAS, f"{SCHEMAS}/ids")


class TreeInUse(LogdError):
    """The tree has topics, groups, users or schemas already."""


class RestoreInterrupted(LogdError):
    """A restoration was interrupted."""


@frozen
class RestoredTopic:
    """A topic of a backup, its stored ends by broker, and where its logs begin."""

    name: str
    entry: TopicEntry
    data: bytes
    ends: Mapping[int, StoredEnds]

    @property
    def beginnings(self) -> dict[int, int]:
        """The position at which each partition begins at the earliest."""
        return {n: beginning_after(end) for each in self.ends.values() for n, end in sorted(each.ends.items())}


@define
class RestoreOutcome:
    """The numbers of nodes that were restored, and those that were left as they were."""

    topics: list[RestoredTopic] = field(factory=list)
    #: Topics of the backup whose names the tree has already.
    kept_topics: list[str] = field(factory=list)
    groups: set[str] = field(factory=set)
    positions: int = 0
    security: int = 0
    schemas: int = 0
    #: Other nodes that the tree had already, and that have other values there.
    kept: list[str] = field(factory=list)
    #: Topics whose deletion the backup notes, and that brokers have registered in the tree again.
    registered_again: list[str] = field(factory=list)
    #: True if the tree got the backup's uuid of the cluster in place of a new one.
    cluster_changed: bool = False


def plan_topics(backup: Backup, now_ms: int) -> list[RestoredTopic]:
    """Return the topics of a backup as they would be restored now. Raises LogdError."""
    slots = slots_since(backup.ended_ms, now_ms)
    topics, stored = [], _stored_by_uuid(backup)
    for path, data in sorted(backup.nodes.items()):
        if path.startswith(f"{paths.BROKER_TOPICS}/"):
            name = path.rpartition("/")[2]
            entry = decode_entry(name, data)
            ends = restored_ends(name, entry, stored.get(entry.uuid, {}), slots)
            topics.append(RestoredTopic(name, entry, data, ends))
    return topics


async def restore(
    tree: ICoordination,
    backup: Backup,
    now_ms: Callable[[], int],
    sleep: Callable[[float], Awaitable[None]],
    adding: bool,
) -> RestoreOutcome:
    """Write a backup into the tree. With ``adding`` the tree may be in use, and what it has stays as it is.

    Before topics are made, it sleeps for up to a second, or a minute if the backup is older than two days: so a later
    restoration never begins their logs at the same positions. Raises TreeInUse, RestoreInterrupted, and LogdError for a
    backup that cannot be restored now; after the first and the last nothing was written.
    """
    now = now_ms()
    topics, end = plan_topics(backup, now), slot_end(backup.ended_ms, now)
    if not adding:
        await _check_unused(tree)
    outcome = RestoreOutcome()

    async def beginnings_are_past() -> None:
        # However the clock is set meanwhile, the slot is not longer than it was.
        await sleep(max(0, min(end - now_ms(), end - now)) / 1000)

    try:
        await _restore(tree, backup, topics, beginnings_are_past, now / 1000, adding, outcome)
    except (CoordinationError, ValueError) as error:
        remedy = "give the brokers' credentials (LOGD_ZOOKEEPER_DIGEST_FILE), and " if isinstance(error, NoAuth) else ""
        raise RestoreInterrupted(
            f"the restoration was interrupted after {len(outcome.topics)} of {len(topics)} topics: {error}; {remedy}"
            "run it again with --add, which goes on with what is missing"
        ) from error
    return outcome


async def _check_unused(tree: ICoordination) -> None:
    for path in _IN_USE:
        with suppress(NoNode):
            found = await tree.get_children(path)
            if found:
                names = ", ".join(sorted(found)[:3]) + (", ..." if len(found) > 3 else "")
                raise TreeInUse(
                    f"the tree is in use: {path} has {names}. "
                    "Restore into a new tree, or give --add: then what the tree has stays, and the rest is added"
                )


async def _restore(
    tree: ICoordination,
    backup: Backup,
    topics: list[RestoredTopic],
    beginnings_are_past: Callable[[], Awaitable[None]],
    now: float,
    adding: bool,
    outcome: RestoreOutcome,
) -> None:
    nodes = backup.nodes
    if not adding and paths.CLUSTER in nodes:
        outcome.cluster_changed = await _replace(tree, paths.CLUSTER, nodes[paths.CLUSTER])
    await _restore_producer_ids(tree, nodes.get(paths.PRODUCER_IDS))
    for path in _below(nodes, SECURITY):
        outcome.security += await _add(tree, path, nodes[path], outcome)
    if await _may_add_schemas(tree, nodes):
        # First, so that a schema which is registered meanwhile, or after an interruption, has no id of the backup.
        if SCHEMA_LAST_ID in nodes:
            outcome.schemas += await _set_at_least(tree, SCHEMA_LAST_ID, decimal(nodes[SCHEMA_LAST_ID].decode()))
        # Parents first, in the order of their paths.
        for path in _below(nodes, SCHEMAS):
            if path != SCHEMA_LAST_ID:
                outcome.schemas += await _add(tree, path, nodes[path], outcome)
    elif _below(nodes, SCHEMAS):
        outcome.kept.append(SCHEMAS)
    for path in _below(nodes, paths.DELETED_TOPICS):
        await _restore_note(tree, path, nodes[path], outcome)
    there = await _uuids(tree, topics)
    own = {topic.name: topic.entry.uuid for topic in topics}

    async def position(path: str) -> None:
        words = path.split("/")
        if len(words) > 4 and there.get(words[4], own.get(words[4])) != own.get(words[4]):
            return  # the tree has another topic of that name, whose positions are others
        outcome.groups.add(words[2])
        if await _add(tree, path, nodes[path], outcome) and len(words) > 5 and words[3] == "offsets":
            outcome.positions += 1

    await for_each(_below(nodes, paths.CONSUMERS), position, _AT_ONCE)

    async def topic(each: RestoredTopic) -> None:
        made = each.name not in there and await _make_topic(tree, each, now)
        if made:
            outcome.topics.append(each)
        else:
            outcome.kept_topics.append(each.name)

    if own.keys() - there.keys():
        await beginnings_are_past()
    await for_each(topics, topic, _AT_ONCE)


async def _restore_note(tree: ICoordination, path: str, data: bytes, outcome: RestoreOutcome) -> None:
    """Make the note of a topic's deletion, unless the tree has that very topic.

    Beside its note the topic could not be deleted, and a broker that lost its disk would remove its stored ends.
    """
    again = None
    with suppress(ValueError):
        again = await registered_again(tree, path.rpartition("/")[2], load_json(data))
    if again is None:
        await _add(tree, path, data, outcome)
    else:
        outcome.registered_again.append(again)


async def _make_topic(tree: ICoordination, topic: RestoredTopic, now: float) -> bool:
    """Make a topic with its stored ends, in one transaction; return False if the tree has such a topic.

    ``now`` is the time of day in seconds.
    Nobody leads the partitions of a replicated topic before an operator's election: without states there could be none.
    """
    parent = paths.stored_topic(topic.entry.uuid)
    for path in (parent, paths.BROKER_TOPICS):
        with suppress(NodeExists):
            await tree.create(path, makepath=True)
    # Left by a topic that the tree has not any more: it may have been stored further than the backup knows.
    left = await read_all_ends(tree, topic.entry.uuid)
    operations: list[Operation] = [Delete(paths.stored_ends(topic.entry.uuid, broker)) for broker in left]
    for broker, ends in topic.ends.items():
        furthest = {
            number: max([end, *(each.ends.get(number, 0) for each in left.values())])
            for number, end in ends.ends.items()
        }
        operations.append(Create(paths.stored_ends(topic.entry.uuid, broker), evolve(ends, ends=furthest).encode()))
    operations.append(Create(paths.topic(topic.name), topic.data))
    # With the note of its deletion in the tree, a broker that has it not any more would remove the stored ends.
    if await tree.exists(paths.deleted_topic(topic.entry.uuid)) is not None:
        operations.append(Delete(paths.deleted_topic(topic.entry.uuid)))
    if topic.entry.replicated:
        operations += creation_of_states(
            topic.name, topic.entry.uuid, dict.fromkeys(topic.entry.partitions, lost_with_the_tree(now))
        )
    try:
        await tree.multi(operations)
    except NodeExists:
        return False
    return True


async def _uuids(tree: ICoordination, topics: list[RestoredTopic]) -> dict[str, str]:
    """Return the uuids of those topics that the tree has; empty for one whose node cannot be read."""
    found = {}

    async def read(topic: RestoredTopic) -> None:
        with suppress(NoNode):
            data, _ = await tree.get(paths.topic(topic.name))
            try:
                found[topic.name] = decode_entry(topic.name, data).uuid
            except ValueError:
                found[topic.name] = ""

    await for_each(topics, read, _AT_ONCE)
    return found


async def _add(tree: ICoordination, path: str, data: bytes, outcome: RestoreOutcome) -> bool:
    """Make a node; return False if there is one, which is left as it is."""
    try:
        await tree.create(path, data, makepath=True)
    except NodeExists:
        if data and (await tree.get(path))[0] != data:
            outcome.kept.append(path)
        return False
    return True


async def _replace(tree: ICoordination, path: str, data: bytes) -> bool:
    """Write a node; return whether another value was there."""
    try:
        await tree.create(path, data, makepath=True)
    except NodeExists:
        former, stat = await tree.get(path)
        if former == data:
            return False
        await tree.set(path, data, stat.version)
        return True
    return False


async def _restore_producer_ids(tree: ICoordination, data: bytes | None) -> None:
    if data is None:
        return
    await _set_at_least(tree, paths.PRODUCER_IDS, decode_next(data) + _PRODUCER_IDS)


async def _set_at_least(tree: ICoordination, path: str, number: int) -> bool:
    """Write a number, unless there is one that is not less; return whether it was written."""
    try:
        await tree.create(path, str(number).encode(), makepath=True)
    except NodeExists:
        former, stat = await tree.get(path)
        if decimal(former.decode("ascii", "replace"), INT64_MAX) >= number:
            return False
        await tree.set(path, str(number).encode(), stat.version)
    return True


async def _may_add_schemas(tree: ICoordination, nodes: Mapping[str, bytes]) -> bool:
    """Return whether the tree has no schemas, or a part of the backup's: those of an interrupted restoration."""
    there = await read_all(tree, [f"{SCHEMAS}/{name}" for name in ("digests", "ids", "references", "subjects")])
    parents = {path for path in there if path.count("/") == 2}
    return all(nodes.get(path) == data for path, data in there.items() if path not in parents)


def _below(nodes: Mapping[str, bytes], root: str) -> list[str]:
    return sorted(path for path in nodes if path == root or path.startswith(f"{root}/"))


def _stored_by_uuid(backup: Backup) -> dict[str, dict[int, StoredEnds]]:
    found: dict[str, dict[int, StoredEnds]] = {}
    for path in _below(backup.nodes, paths.STORED):
        *_, uuid, broker = path.split("/")
        found.setdefault(uuid, {})[decimal(broker)] = StoredEnds.decode(path, backup.nodes[path])
    return found
