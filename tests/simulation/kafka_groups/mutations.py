"""The rules of Kafka's groups, switched off one at a time: the simulation has to find each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any
from unittest import mock

from attrs import evolve

from logd.broker.kafka.groups import group as group_module
from logd.broker.kafka.groups.coordinator import GroupCoordinator
from logd.broker.kafka.groups.group import KafkaGroup
from logd.broker.kafka.groups.group_rights import refusals
from logd.broker.kafka.groups.members import AnswerJoin, JoinAnswer, JoinRequest, KafkaMember, SyncAnswer
from logd.broker.kafka.groups.rebalance_step import RebalanceStep
from logd.broker.kafka.groups.roster import Roster
from logd.coord.errors import CoordinationError
from logd.coord.kafka_groups.claim import GroupClaim
from logd.coord.kafka_groups.commit_operations import Commits
from logd.coord.kafka_groups.positions import KafkaPositions


def commit_without_the_claim() -> AbstractContextManager[Any]:
    """A commit does not demand that the coordinator's claim lasts."""
    return mock.patch.object(GroupClaim, "guard", lambda claim: [])


def commit_of_any_generation() -> AbstractContextManager[Any]:
    """A member may commit in whatever generation it takes itself to be."""

    def check(group: KafkaGroup, member_id: str, instance_id: str | None, generation: int) -> int:
        return 0

    return mock.patch.object(KafkaGroup, "check_commit", check)


def commit_behind_the_next_generation() -> AbstractContextManager[Any]:
    """A commit that waits while the next generation is written is stored behind it."""

    async def commit(
        groups: GroupCoordinator, name: str, commits: Commits, member_id: str, instance_id: str | None, generation: int
    ) -> int:
        held = await groups.held(name)
        if held is None:
            return 22
        error = held.group.check_commit(member_id, instance_id, generation)
        if not error:
            with refusals():
                async with held.lock:
                    await held.positions.store(commits, held.claim)
        return error

    return mock.patch.object(GroupCoordinator, "commit", commit)


def begin_generations_again() -> AbstractContextManager[Any]:
    """A new coordinator does not go on with the number of the last generation."""
    return mock.patch.object(GroupClaim, "_read_generation", lambda claim, data: 0)


def begin_without_writing() -> AbstractContextManager[Any]:
    """A generation begins though its number is not in the tree."""

    def begin(groups: GroupCoordinator, group: KafkaGroup, generation: int) -> None:
        group.generation_written(generation)

    return mock.patch.object(GroupCoordinator, "write_generation", begin)


def assign_to_any_generation() -> AbstractContextManager[Any]:
    """A member of a former generation is given an assignment of the present one."""
    check = KafkaGroup._check

    def lenient(group: KafkaGroup, member_id: str, instance_id: str | None, generation: int) -> int:
        return check(group, member_id, instance_id, group.generation)

    return mock.patch.object(KafkaGroup, "_check", lenient)


def keep_the_id_of_a_static_member() -> AbstractContextManager[Any]:
    """A static member that has started again has the id of its former process, which may still run."""
    replace = KafkaGroup._replace

    def keep(group: KafkaGroup, member: KafkaMember, asked: JoinRequest, answer: AnswerJoin) -> None:
        former = member.member_id
        with mock.patch.object(group_module, "evolve", lambda each, **more: evolve(each, member_id=former)):
            replace(group, member, asked, lambda given: answer(evolve(given, member_id=former)))

    return mock.patch.object(KafkaGroup, "_replace", keep)


def members_live_for_ever() -> AbstractContextManager[Any]:
    """A member that is not heard of stays."""
    return mock.patch.object(KafkaGroup, "_expired", lambda group, member: None)


def expect_new_members_for_ever() -> AbstractContextManager[Any]:
    """A group waits for each client that it has given an id."""

    expect = Roster.expect
    return mock.patch.object(Roster, "expect", lambda roster, member_id, seconds: expect(roster, member_id, 1e6))


def wait_for_all_for_ever() -> AbstractContextManager[Any]:
    """The delay of a new group never ends."""
    return mock.patch.object(RebalanceStep, "_over", lambda step, over: None)


def forget_the_lost() -> AbstractContextManager[Any]:
    """A member whose generation is over is not told so."""

    def beat(group: KafkaGroup, member_id: str, instance_id: str | None, generation: int) -> int:
        if member_id in group.roster.members:
            group.roster.touch(group.roster.members[member_id])
        return 0

    return mock.patch.object(KafkaGroup, "heartbeat", beat)


def count_memory_once() -> AbstractContextManager[Any]:
    """The memory of a member that is removed stays counted."""

    def remove(roster: Roster, member: KafkaMember) -> None:
        del roster.members[member.member_id]
        if member.timer is not None:
            member.timer.cancel()
            member.timer = None

    return mock.patch.object(Roster, "remove", remove)


def keep_claims() -> AbstractContextManager[Any]:
    """A group that is empty is not given back to the tree."""

    async def keep(claim: GroupClaim) -> None:
        return None

    return mock.patch.object(GroupClaim, "release", keep)


def commit_alone_among_members() -> AbstractContextManager[Any]:
    """A client that is no member commits without a look at a coordinator."""
    return mock.patch.object(KafkaPositions, "_momentary", lambda positions: ([], []))


def forget_what_was_read() -> AbstractContextManager[Any]:
    """A member is told that nothing is committed."""

    async def read(positions: KafkaPositions, places: Any) -> Mapping[Any, Any]:
        return dict.fromkeys(places)

    return mock.patch.object(KafkaPositions, "read", read)


def acknowledge_at_once() -> AbstractContextManager[Any]:
    """A commit whose transaction fails is acknowledged all the same."""
    store = KafkaPositions.store

    async def hope(positions: KafkaPositions, commits: Commits, claim: GroupClaim) -> None:
        try:
            await store(positions, commits, claim)
        except CoordinationError:
            return

    return mock.patch.object(KafkaPositions, "store", hope)


def leave_joins_unanswered() -> AbstractContextManager[Any]:
    """A generation begins with members who are not told."""

    answer = GroupCoordinator.answer

    def answer_others(coordinator: GroupCoordinator, answers: Sequence[Any]) -> None:
        answer(coordinator, [give for give in answers if not _lets_begin(give.args[0])])

    return mock.patch.object(GroupCoordinator, "answer", answer_others)


def _lets_begin(answer: JoinAnswer | SyncAnswer) -> bool:
    return isinstance(answer, JoinAnswer) and not answer.error


#: All of them, by name.
GROUP_MUTATIONS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    each.__name__: each
    for each in (
        commit_without_the_claim,
        commit_of_any_generation,
        commit_behind_the_next_generation,
        begin_generations_again,
        begin_without_writing,
        assign_to_any_generation,
        keep_the_id_of_a_static_member,
        members_live_for_ever,
        expect_new_members_for_ever,
        wait_for_all_for_ever,
        forget_the_lost,
        count_memory_once,
        keep_claims,
        commit_alone_among_members,
        forget_what_was_read,
        acknowledge_at_once,
        leave_joins_unanswered,
    )
}
