"""Kafka's DescribeGroups, ListGroups and DeleteGroups. Groups of native consumers are shown where they are alike."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from typing import Any

from twisted.internet.defer import CancelledError

from logd.broker.kafka.error_codes import GROUP_ID_NOT_FOUND, INCONSISTENT_GROUP_PROTOCOL, NON_EMPTY_GROUP
from logd.broker.kafka.groups.group import KafkaGroup
from logd.broker.kafka.groups.group_rights import GroupRefused, GroupRights, refusals
from logd.broker.kafka.groups.members import GroupState
from logd.broker.kafka.groups.membership_requests import likely_coordinator
from logd.broker.kafka.groups.subscriptions import CONSUMER, encode_assignment, encode_subscription
from logd.broker.requests.core import BrokerCore
from logd.coord.groups.group_changes import GroupChanged, GroupLive, delete_group
from logd.coord.groups.inspection import GroupEntry, UnknownGroup, has_consumers, list_groups, read_group
from logd.coord.kafka_coordinator import read_coordinator
from logd.deferreds.fair_turns import FairTurns
from logd.deferreds.gathering import for_each, gather_some
from logd.protocol.kafka.apis import APIS
from logd.security.access_rules import Operation

DESCRIBE_GROUPS, LIST_GROUPS, DELETE_GROUPS = APIS[15], APIS[16], APIS[42]

#: The state of a group that does not exist.
_DEAD = "Dead"
#: The assignor of native consumers, as Kafka's tools show it.
_NATIVE = "logd"
#: The type of all groups: there are none of the protocol of Kafka 4.0.
_CLASSIC = "classic"
#: The version of ListGroups from which on states are told.
_STATES_FROM = 4
#: Groups that are looked at in the tree at the same time.
_AT_ONCE = 200


class GroupAdministration:
    """These requests of one connection."""

    def __init__(
        self, broker: BrokerCore, addresses: Callable[[], dict[int, tuple[str, int]]], rights: GroupRights
    ) -> None:
        self._groups = broker.kafka_groups.get()
        self._turns = broker.turns
        self._log = broker.administration_log
        self._rights = rights
        self._addresses = addresses
        self._lost = False

    def lost(self) -> None:
        """Describe no more groups: the connection is lost."""
        self._lost = True

    async def describe(self, request: Any) -> Any:
        """Describe groups: their state, and their members with subscriptions and assignments.

        A group that is named again is described once: it may have megabytes.
        """
        found: dict[str, Any] = dict.fromkeys(request.groups)
        turns = self._turns()
        with_operations = bool(request.include_authorized_operations)

        async def describe(name: str) -> None:
            if self._lost:
                raise CancelledError
            found[name] = row = await self._describe(name, turns)
            if with_operations and not row.error_code:
                row.authorized_operations = self._rights.operations(name)

        await for_each(tuple(found), describe, min(_AT_ONCE, len(found)), turns)
        return DESCRIBE_GROUPS.response(throttle_time_ms=0, groups=list(found.values()))

    async def list_all(self, request: Any) -> Any:
        """List the groups that this broker coordinates, and of those that no broker coordinates its share.

        Filters are names in any case of letters; an empty one passes all.
        """
        error = 0
        turns = self._turns()
        states = {state.lower() for state in request.states_filter or ()}
        types = {kind.lower() for kind in request.types_filter or ()}
        listed = self._held()
        try:
            for name, state in await self._others(turns, with_states=request.version >= _STATES_FROM):
                listed.setdefault(name, (CONSUMER, state))
        except GroupRefused as refused:
            error = refused.code
        # Those that were claimed here meanwhile are not among the others, and were not here before.
        listed |= self._held()
        row = LIST_GROUPS.response_class.ListedGroup
        groups = []
        for name, (kind, state) in sorted(listed.items()):
            if turns.over:
                await turns.rest()
            wanted = (not states or state.value.lower() in states) and (not types or _CLASSIC in types)
            if wanted and self._rights.may_list(name):
                groups.append(row(group_id=name, protocol_type=kind, group_state=state.value, group_type=_CLASSIC))
        return LIST_GROUPS.response(throttle_time_ms=0, error_code=error, groups=groups)

    def _held(self) -> dict[str, tuple[str, GroupState]]:
        """Return the kind of the members and the state of each group that this broker coordinates."""
        groups = self._groups.groups.items()
        return {name: (held.group.roster.protocol_type, held.group.state) for name, held in groups}

    async def delete(self, request: Any) -> Any:
        """Delete groups that have no members, with their positions."""
        row = DELETE_GROUPS.response_class.DeletableGroupResult
        results = []
        turns = self._turns()
        for name in request.groups_names:
            if turns.over:
                await turns.rest()
            code = await self._delete(name)
            results.append(row(group_id=name, error_code=code))
            self._record(name, code)
        return DELETE_GROUPS.response(throttle_time_ms=0, results=results)

    def _record(self, name: str, code: int) -> None:
        if code:
            self._log.refused(self._rights.requester, "delete group", name, f"Kafka's error {code}")
        else:
            self._log.record(self._rights.requester, "delete group", name)

    async def _describe(self, name: str, turns: FairTurns) -> Any:
        try:
            self._rights.check(Operation.DESCRIBE, name)
            held = await self._groups.held(name)
            if held is not None:
                return await _described(held.group, turns)
            with refusals():
                entry = await read_group(self._groups.coordination, name)
            return _described_entry(entry)
        except UnknownGroup:
            return _row(name, _DEAD)
        except GroupRefused as refused:
            return _row(name, "", error=refused.code)

    async def _others(self, turns: FairTurns, with_states: bool) -> list[tuple[str, GroupState]]:
        """Return the groups that no broker coordinates and this one would, each with its state if that is asked for."""
        groups, brokers = self._groups, sorted(self._addresses())
        with refusals():
            mine = []
            for name in await list_groups(groups.coordination):
                if turns.over:
                    await turns.rest()
                if likely_coordinator(name, brokers) == groups.broker_id and name not in groups.groups:
                    mine.append(name)
            claims = await gather_some((read_coordinator(groups.coordination, name) for name in mine), _AT_ONCE)
            free = [name for name, claim in zip(mine, claims, strict=True) if claim is None]
            if not with_states:
                return [(name, GroupState.EMPTY) for name in free]
            live = await gather_some((has_consumers(groups.coordination, name) for name in free), _AT_ONCE)
        return [(name, GroupState.STABLE if each else GroupState.EMPTY) for name, each in zip(free, live, strict=True)]

    async def _delete(self, name: str) -> int:
        groups = self._groups
        try:
            self._rights.check(Operation.DELETE, name)
            if await groups.held(name) is not None:
                return NON_EMPTY_GROUP
            with refusals():
                await delete_group(groups.coordination, name)
        except UnknownGroup:
            return GROUP_ID_NOT_FOUND
        except (GroupLive, GroupChanged):
            return NON_EMPTY_GROUP
        except GroupRefused as refused:
            return NON_EMPTY_GROUP if refused.code == INCONSISTENT_GROUP_PROTOCOL else refused.code
        return 0


def _row(name: str, state: str, kind: str = "", protocol: str = "", members: Any = (), error: int = 0) -> Any:
    return DESCRIBE_GROUPS.response_class.DescribedGroup(
        error_code=error,
        group_id=name,
        group_state=state,
        protocol_type=kind,
        protocol_data=protocol,
        members=list(members),
        authorized_operations=None,
    )


def _member(
    member_id: str, instance_id: str | None, client: tuple[str, str], metadata: bytes, assignment: bytes
) -> Any:
    return DESCRIBE_GROUPS.response_class.DescribedGroup.DescribedGroupMember(
        member_id=member_id,
        group_instance_id=instance_id,
        client_id=client[0],
        client_host=client[1],
        member_metadata=metadata,
        member_assignment=assignment,
    )


async def _described(group: KafkaGroup, turns: FairTurns) -> Any:
    stable = group.state is GroupState.STABLE
    protocol = group.protocol if stable else ""
    # All of one moment: the members are taken before others are served.
    row = _row(group.name, group.state.value, group.roster.protocol_type, protocol)
    taken = [
        (
            member.member_id,
            member.asked,
            member.metadata(protocol) if stable else b"",
            member.assignment if stable else b"",
        )
        for member in group.roster
    ]
    for member_id, asked, metadata, assignment in taken:
        if turns.over:
            await turns.rest()
        client = asked.client_id, f"/{asked.client_host}"
        row.members.append(_member(member_id, asked.instance_id, client, metadata, assignment))
    return row


def _described_entry(entry: GroupEntry) -> Any:
    """Describe a group that no broker coordinates: it has native consumers, or none."""
    if not entry.live:
        return _row(entry.name, GroupState.EMPTY.value, CONSUMER)
    owned: dict[str, dict[str, list[int]]] = {name: defaultdict(list) for name in entry.consumers}
    for where, owner in entry.owners.items():
        consumer = owner.stream.rpartition("-")[0]
        owned.setdefault(consumer, defaultdict(list))[where.topic].append(where.partition)
    members = [
        _member(
            consumer,
            None,
            (consumer, ""),
            encode_subscription(entry.consumers[consumer].topics if consumer in entry.consumers else partitions),
            encode_assignment(partitions),
        )
        for consumer, partitions in sorted(owned.items())
    ]
    return _row(entry.name, GroupState.STABLE.value, CONSUMER, _NATIVE, members)
