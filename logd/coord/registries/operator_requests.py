"""Requests of operators to the controller: nodes of the coordination tree that they write and it reads.

/brokers/draining/<id>             a broker that is to lead nothing; no value
/brokers/elections/<topic>         {"uuid": "<topic's uuid>", "partitions": [0, 3]}: any live replica may lead them,
                                   by "leaders": {"0": 2} that one alone, once it is live; with "unclean": false their
                                   preferred leaders are to lead now
/brokers/reassignments/<topic>     {"uuid": "<topic's uuid>", "partitions": {"0": [2, 3]}}: the replicas in the end;
                                   "bytes_per_second": 1000000 is the most that each leader sends to them meanwhile,
                                   "before": {"0": [1, 2]} what a cancelled reassignment goes back to
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, TypeVar

from attrs import evolve, field, frozen

from logd.checkedjson import decimal, excerpt, load_json, whole_number
from logd.coord import paths
from logd.coord.errors import BadVersion, NodeExists, NoNode
from logd.coord.interfaces import ICoordination
from logd.coord.partition_state import MOST_REPLICAS
from logd.errors import InvalidRequest
from logd.topic import is_uuid

#: Attempts when others change a node meanwhile.
ATTEMPTS = 5
#: The most partitions that an error names.
_MOST_NAMED = 3
NO_LEADERS: Mapping[int, int] = MappingProxyType({})


@frozen
class RequestedElection:
    """Partitions of one topic that are to get other leaders, as a person has decided."""

    uuid: str
    partitions: tuple[int, ...]
    #: True: any live replica may lead those without a leader. False: preferred leaders are to lead at once.
    unclean: bool = True
    #: The replicas that should lead after an unclean election, as they have the most.
    leaders: Mapping[int, int] = field(factory=dict)

    def encode(self) -> bytes:
        """Return the node's value."""
        value: dict[str, Any] = {"uuid": self.uuid, "partitions": list(self.partitions)}
        if not self.unclean:
            value["unclean"] = False
        if self.leaders:
            value["leaders"] = {str(number): leader for number, leader in sorted(self.leaders.items())}
        return json.dumps(value).encode()

    @classmethod
    def decode(cls, data: bytes) -> RequestedElection:
        """Decode a node's value; raise ValueError, and nothing else, for any other value."""
        value = _object(data)
        partitions, unclean, leaders = value.get("partitions"), value.get("unclean", True), value.get("leaders", {})
        if not isinstance(partitions, list):
            raise ValueError(f"{excerpt(partitions)} is no list of partitions")
        if not isinstance(unclean, bool) or not isinstance(leaders, dict):
            raise ValueError(f"{excerpt(value)} is no election")
        wanted = {decimal(number): whole_number(leader) for number, leader in leaders.items()}
        return cls(_uuid(value), tuple(sorted(set(map(whole_number, partitions)))), unclean, wanted)


@frozen
class Reassignment:
    """The replicas that partitions of one topic are to have in the end, the preferred leader first."""

    uuid: str
    partitions: Mapping[int, tuple[int, ...]] = field(factory=dict)
    #: The most bytes a second that each leader sends to replicas that are not in sync, 0 for the brokers' setting.
    rate: int = 0
    #: The replicas that the partitions had before, which they get back if the reassignment is cancelled.
    before: Mapping[int, tuple[int, ...]] = field(factory=dict)

    def encode(self) -> bytes:
        """Return the node's value."""
        value: dict[str, Any] = {"uuid": self.uuid, "partitions": _lists(self.partitions)}
        if self.rate:
            value["bytes_per_second"] = self.rate
        if self.before:
            value["before"] = _lists(self.before)
        return json.dumps(value).encode()

    @classmethod
    def decode(cls, data: bytes) -> Reassignment:
        """Decode a node's value; raise ValueError, and nothing else, for any other value."""
        value = _object(data)
        partitions = value.get("partitions")
        if not isinstance(partitions, dict):
            raise ValueError(f"{excerpt(partitions)} has no replicas of partitions")
        rate, before = whole_number(value.get("bytes_per_second", 0)), value.get("before", {})
        if not isinstance(before, dict):
            raise ValueError(f"{excerpt(before)} has no replicas of partitions")
        return cls(_uuid(value), _tuples(partitions), rate, _tuples(before))


_Request = TypeVar("_Request", RequestedElection, Reassignment)


async def read_draining(tree: ICoordination) -> frozenset[int]:
    """Return the brokers that are to lead nothing. Raises CoordinationError."""
    try:
        names = await tree.get_children(paths.DRAINING)
    except NoNode:
        return frozenset()
    found = set()
    for name in names:
        with suppress(ValueError):
            found.add(decimal(name))
    return frozenset(found)


async def set_draining(tree: ICoordination, broker: int, draining: bool) -> bool:
    """Let a broker lead nothing, or let it lead again; return whether that is a change. Raises CoordinationError."""
    path = f"{paths.DRAINING}/{broker:d}"
    try:
        if draining:
            await tree.create(path, makepath=True)
        else:
            await tree.delete(path)
    except (NodeExists, NoNode):
        return False
    return True


async def request_election(
    tree: ICoordination,
    topic: str,
    uuid: str,
    partitions: Collection[int],
    *,
    unclean: bool = True,
    leaders: Mapping[int, int] = NO_LEADERS,
) -> None:
    """Ask for an election. Raises CoordinationError.

    It joins one of the same kind that waits: its ``leaders`` then stand for its partitions alone. An unclean one is a
    person's decision, and may wait for days: raises InvalidRequest for another kind beside it.
    """

    def change(waiting: RequestedElection | None) -> RequestedElection:
        if waiting is None or waiting.uuid != uuid or (unclean and not waiting.unclean):
            return RequestedElection(uuid, tuple(sorted(partitions)), unclean, leaders)
        if waiting.unclean and not unclean:
            names = ", ".join(f"{topic}-{number}" for number in waiting.partitions[:_MOST_NAMED])
            raise InvalidRequest(
                f"an unclean election of {names}{', ...' * (len(waiting.partitions) > _MOST_NAMED)} was asked for, and "
                f"is not held yet: try again once it is, or `logd elect {topic} --cancel` takes that back"
            )
        kept = {number: leader for number, leader in waiting.leaders.items() if number not in partitions}
        joined = tuple(sorted({*waiting.partitions, *partitions}))
        return evolve(waiting, partitions=joined, leaders={**kept, **leaders})

    await _change(tree, paths.election(topic), RequestedElection.decode, change)


async def withdraw_election(tree: ICoordination, topic: str, uuid: str, partitions: Collection[int]) -> tuple[int, ...]:
    """Take back elections of ``partitions``, none for all, that were asked for and are not held yet; return those.

    What was asked for a former topic of this name goes as well, and is not returned. Raises CoordinationError.
    """
    path = paths.election(topic)
    for _ in range(ATTEMPTS):
        try:
            data, stat = await tree.get(path)
        except NoNode:
            return ()
        try:
            asked = RequestedElection.decode(data)
        except ValueError:
            asked = RequestedElection("", ())  # nobody could carry it out
        left = tuple(number for number in asked.partitions if partitions and number not in partitions)
        with suppress(NoNode, BadVersion):  # it was carried out, or changed, meanwhile
            if left and asked.uuid == uuid:
                leaders = {number: leader for number, leader in asked.leaders.items() if number in left}
                await tree.set(path, evolve(asked, partitions=left, leaders=leaders).encode(), stat.version)
            else:
                await tree.delete(path, stat.version)
            return tuple(each for each in asked.partitions if each not in left) if asked.uuid == uuid else ()
    raise BadVersion(f"{path} changes faster than it can be written", path)


async def change_reassignment(
    tree: ICoordination, topic: str, change: Callable[[Reassignment | None], Reassignment | None]
) -> None:
    """Put ``change(what is asked for now)`` in its place; None stands for no reassignment.

    ``change`` is called again if somebody else has changed the node meanwhile. Raises CoordinationError.
    """
    await _change(tree, paths.reassignment(topic), Reassignment.decode, change)


async def read_reassignments(tree: ICoordination) -> dict[str, Reassignment]:
    """Return the reassignments under way, by topic; what cannot be read is left out. Raises CoordinationError."""
    try:
        topics = await tree.get_children(paths.REASSIGNMENTS)
    except NoNode:
        return {}
    found = {}
    for topic in topics:
        with suppress(NoNode, ValueError):
            found[topic] = Reassignment.decode((await tree.get(paths.reassignment(topic)))[0])
    return found


async def _change(
    tree: ICoordination,
    path: str,
    decode: Callable[[bytes], _Request],
    change: Callable[[_Request | None], _Request | None],
) -> None:
    """Put ``change(the request that a node has)`` in its place; None stands for no request, or an unreadable one."""
    for _ in range(ATTEMPTS):
        before, version = None, None
        with suppress(NoNode):
            data, stat = await tree.get(path)
            version = stat.version
            with suppress(ValueError):
                before = decode(data)
        wanted = change(before)
        if wanted == before:
            return
        with suppress(NoNode, NodeExists, BadVersion):
            if version is None:
                assert wanted is not None
                await tree.create(path, wanted.encode(), makepath=True)
            elif wanted is None:
                await tree.delete(path, version)
            else:
                await tree.set(path, wanted.encode(), version)
            return
    raise BadVersion(f"{path} changes faster than it can be written", path)


def _object(data: bytes) -> dict[str, Any]:
    value = load_json(data)
    if not isinstance(value, dict):
        raise ValueError(f"{excerpt(value)} is no request to the controller")
    return value


def _uuid(value: dict[str, Any]) -> str:
    uuid = value.get("uuid")
    if not is_uuid(uuid):
        raise ValueError(f"{excerpt(uuid)} is not a topic's uuid")
    return str(uuid)


def _lists(partitions: Mapping[int, tuple[int, ...]]) -> dict[str, list[int]]:
    return {str(number): list(replicas) for number, replicas in sorted(partitions.items())}


def _tuples(partitions: dict[str, Any]) -> dict[int, tuple[int, ...]]:
    return {decimal(number): _replicas(replicas) for number, replicas in partitions.items()}


def _replicas(value: Any) -> tuple[int, ...]:
    if not isinstance(value, list) or not 1 <= len(value) <= MOST_REPLICAS:
        raise ValueError(f"{excerpt(value)} is no list of 1 to {MOST_REPLICAS} brokers")
    replicas = tuple(map(whole_number, value))
    if len(set(replicas)) != len(replicas):
        raise ValueError(f"{excerpt(value)} names a broker twice")
    return replicas
