"""The topics in the tree: creating the node creates the topic.

/brokers/topics/<topic>                     the topic's entry (logd/topic.py)
/brokers/topics/<topic>/change-<random>     exists while a broker changes the topic; ends with the broker's session
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import NamedTuple
from uuid import uuid4

from attrs import define, field

from logd.checkedjson import load_json
from logd.coord import paths
from logd.coord.errors import (
    BadVersion,
    ConnectionLoss,
    CoordinationError,
    DataInconsistency,
    NodeExists,
    NoNode,
    OperationTimeout,
    SessionExpired,
)
from logd.coord.interfaces import ICoordination
from logd.coord.partition_state import PartitionState
from logd.coord.records import Check, Create, Delete, Operation, SetData
from logd.coord.registries.child_cache import ChildCache
from logd.errors import InvalidRequest, InvalidTopic, TopicExists, UnknownTopic
from logd.interfaces import Clock
from logd.plurals import counted
from logd.topic import TopicEntry, check_topic_name

#: Attempts when others change the node meanwhile, or the answer is lost.
ATTEMPTS = 5
#: Returns the states of new partitions of a topic. Raises WireErrors.
StatesOf = Callable[[TopicEntry, Iterable[int]], Mapping[int, PartitionState]]
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
                    f"topic {name!r} exists already, and cannot be used: {unreadable(name, error)}"
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
    """Make what ``check_identity`` asks for, if an earlier version has created the topic; return whether it is there.

    Raises CoordinationError.
    """
    claim = TopicClaim(coordination, topic)
    try:
        await claim.make()
        data, _ = await coordination.get(paths.topic(topic))
        if decode_entry(topic, data).uuid != uuid:
            return False
        await coordination.multi([claim.removal(), Create(paths.topic_identity(topic, uuid))])
        claim.removed()
    except NodeExists:
        return True  # for another partition, whose state was changed at the same time
    except (NoNode, ValueError):
        return False
    finally:
        claim.release()
    return True


async def read_topic(coordination: ICoordination, name: str) -> TopicEntry:
    """Read one topic's entry. Raises UnknownTopic, CoordinationError, and ValueError for an invalid entry."""
    found = await _read_or_none(coordination, name)
    if found is None:
        raise UnknownTopic(f"there is no topic {name!r}")
    return found


@define(eq=False)
class TopicClaim:
    """The node that one change of one topic makes. ``release`` it in the end.

    A node that is made again begins with version 0, so the version of a topic's node does not tell whether the topic is
    the one that was read. But nothing below a node outlives it: a transaction that also removes a node that was made
    there, before the topic was read, changes that topic or none.
    """

    _coordination: ICoordination
    _topic: str
    path: str = field(init=False)
    #: True if the node was there when it was last heard of; and if it may be there.
    _is_made: bool = field(default=False, init=False)
    _may_exist: bool = field(default=False, init=False)

    def __attrs_post_init__(self) -> None:
        self.path = paths.topic_change(self._topic, uuid4().hex)

    async def make(self) -> None:
        """Make the node, if it is not there; read the topic after that. Raises NoNode, other CoordinationErrors."""
        if not self._is_made:
            self._may_exist = True
            with suppress(NodeExists):  # it was made, and the answer lost
                await self._coordination.create(self.path, ephemeral=True)
            self._is_made = True

    def check(self) -> Check:
        """Return the operation that fails with NoNode if the topic was deleted, also if it was made again."""
        return Check(self.path)

    def removal(self) -> Delete:
        """Return the operation that fails as ``check`` does, and removes the node."""
        return Delete(self.path)

    def doubt(self) -> None:
        """Note that the node may be gone, so that ``make`` makes it again."""
        self._is_made = False

    def removed(self) -> None:
        """Note that a transaction with ``removal`` was made."""
        self._is_made = self._may_exist = False

    def release(self) -> None:
        """Remove the node if it may be there, without waiting for that."""
        if self._may_exist:
            self.removed()
            self._coordination.delete(self.path).addErrback(lambda failure: None)


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
    claim = TopicClaim(coordination, name)
    try:
        return await _change(coordination, name, change, states, claim)
    finally:
        claim.release()


async def _change(
    coordination: ICoordination,
    name: str,
    change: Callable[[TopicEntry], TopicEntry],
    states: StatesOf | None,
    claim: TopicClaim,
) -> tuple[TopicEntry, TopicEntry]:
    path = paths.topic(name)
    unanswered: _Unanswered | None = None
    for attempt in range(1, ATTEMPTS + 1):
        try:
            if unanswered is not None:
                await coordination.sync(path)  # another server of the ensemble may not have the change yet
            await claim.make()
            data, stat = await coordination.get(path)
            entry = decode_entry(name, data)
        except NoNode:
            raise UnknownTopic(f"there is no topic {name!r}") from None
        except ValueError as error:
            raise DataInconsistency(unreadable(name, error), path) from error
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
            new: list[Operation] = []
            if changed.replicated and added:
                made = {} if states is None else states(changed, added)
                new = creation_of_states(name, entry.uuid, made, first=False)
            await coordination.multi([claim.removal(), SetData(path, encode_entry(changed), stat.version), *new])
        except (NoNode, BadVersion) as error:
            claim.doubt()  # if the topic was deleted, the next look finds the one that has its name now, or none
            if attempt == ATTEMPTS:
                raise error if unanswered is None else ChangeUncertain(name, error) from error
        except ConnectionLoss as error:
            claim.doubt()
            unanswered = _Unanswered(stat.version, entry, changed)
            if attempt == ATTEMPTS:
                raise ChangeUncertain(name, error) from error
        except (OperationTimeout, SessionExpired) as error:
            raise ChangeUncertain(name, error) from error
        else:
            claim.removed()
            return entry, changed
    raise AssertionError("the last attempt returns or raises")


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


def unreadable(name: str, error: ValueError) -> str:
    """Return what is wrong with a topic's node that cannot be read, and the remedy."""
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
