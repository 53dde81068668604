"""The state of one group of Kafka clients: members, generations and assignments. No I/O: a clock, calls and callbacks.

The protocol is that of Kafka's classic groups. A generation begins in three steps:

- PREPARING: the members are asked to join again (a heartbeat answers 27), and their requests to join wait until all are
  there or the rebalance timeout is over. Those that are not there then are members no longer, except for static ones.
- The number of the generation is written to the coordination tree (``GroupOwner.write_generation``). Then the requests
  are answered: the leader, the first member, is told of all members.
- COMPLETING: members ask for their assignments, which wait for that of the leader, who sends the assignments of all.

Then the group is STABLE until a member joins, leaves, or is not heard of within its session timeout.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from attrs import evolve
from twisted.logger import Logger

from logd.broker.kafka.error_codes import (
    COORDINATOR_NOT_AVAILABLE,
    FENCED_INSTANCE_ID,
    GROUP_MAX_SIZE_REACHED,
    ILLEGAL_GENERATION,
    INCONSISTENT_GROUP_PROTOCOL,
    MEMBER_ID_REQUIRED,
    NOT_COORDINATOR,
    REBALANCE_IN_PROGRESS,
    UNKNOWN_MEMBER_ID,
)
from logd.broker.kafka.groups.limits import GroupLimits, MemberMemory
from logd.broker.kafka.groups.members import (
    AnswerJoin,
    AnswerSync,
    GroupState,
    JoinAnswer,
    JoinRequest,
    KafkaMember,
    ListedMember,
    SyncAnswer,
    choose_protocol,
)
from logd.broker.kafka.groups.rebalance_step import RebalanceStep
from logd.broker.kafka.groups.roster import Roster
from logd.interfaces import Clock

if TYPE_CHECKING:
    from logd.broker.kafka.groups.group_owner import GroupOwner

#: Seconds for which a request to join of a new member waits: by then its client has given up, and asks again.
NEW_MEMBER_SECONDS = 300.0


class KafkaGroup:
    """One group. Answers are given by calling the function that came with the request, perhaps at once."""

    _log = Logger()

    def __init__(
        self,
        name: str,
        clock: Clock,
        limits: GroupLimits,
        memory: MemberMemory,
        owner: GroupOwner,
        new_id: Callable[[], str],
        generation: int = 0,
    ) -> None:
        """``new_id()`` returns what no other member's id ends with; ``generation`` is the last one of the group."""
        self.name = name
        self._limits = limits
        self._owner = owner
        self._new_id = new_id
        self.generation = generation
        self.state = GroupState.EMPTY
        #: The assignor of the generation.
        self.protocol = ""
        #: The id of the leader; "" while the group has none.
        self.leader = ""
        self.roster = Roster(clock, memory, self._expired, self._not_joined, owner.later)
        self._step = RebalanceStep(clock)

    # Requests

    def join(self, asked: JoinRequest, answer: AnswerJoin) -> None:
        """Let a member join the next generation. Its answer waits until that begins."""
        if not self.roster.fits(asked):
            answer(JoinAnswer(INCONSISTENT_GROUP_PROTOCOL, asked.member_id))
        elif not asked.member_id:
            self._join_new(asked, answer)
        else:
            self._join_known(asked, answer)
        self._tell_if_unused()

    def sync(
        self,
        member_id: str,
        instance_id: str | None,
        generation: int,
        assignments: Mapping[str, bytes],
        answer: AnswerSync,
    ) -> None:
        """Answer with the member's assignment, once the leader has sent ``assignments``."""
        error = self._check(member_id, instance_id, generation)
        if error or self.state is GroupState.PREPARING:
            answer(SyncAnswer(error or REBALANCE_IN_PROGRESS))
            return
        member = self.roster.members[member_id]
        member.has_synced = True
        self.roster.touch(member)
        if self.state is GroupState.COMPLETING:
            member.tell_sync(SyncAnswer(REBALANCE_IN_PROGRESS))  # an earlier request, that the client has given up
            member.await_sync(answer)
            if member_id == self.leader:
                self._assign(assignments)
        else:
            answer(SyncAnswer(0, member.assignment))
        if self.state is GroupState.STABLE and all(each.has_synced for each in self.roster):
            self._step.end()

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> int:
        """Note that a member lives; return an error, 0 for none."""
        error = self._check(member_id, instance_id, generation)
        if error:
            return error
        self.roster.touch(self.roster.members[member_id])
        return REBALANCE_IN_PROGRESS if self.state is GroupState.PREPARING else 0

    def leave(self, member_id: str, instance_id: str | None) -> int:
        """Remove a member, or the static member of that name; return an error, 0 for none."""
        if instance_id is None and self.roster.expected(member_id):
            self._joined()
        else:
            if instance_id is not None and not member_id:
                member_id = self.roster.static_id(instance_id)
            error = self.roster.check(member_id, instance_id)
            if error:
                return error
            self._drop(self.roster.members[member_id])
            self._changed()
        self._tell_if_unused()
        return 0

    def check_commit(self, member_id: str, instance_id: str | None, generation: int) -> int:
        """Return the error that forbids a member to commit now, 0 for none."""
        if generation < 0 and not self.roster:
            return 0  # of no member, whatever else it tells: Java's consumer may tell its group.instance.id
        error = self._check(member_id, instance_id, generation)
        if error:
            return error
        self.roster.touch(self.roster.members[member_id])
        return REBALANCE_IN_PROGRESS if self.state is GroupState.COMPLETING else 0

    def not_awaited(self, answer: AnswerJoin | AnswerSync) -> None:
        """Note that the connection of the request that waits for ``answer`` is lost."""
        answers = self.roster.answers
        if (member := answers.syncs.get(answer)) is not None:
            member.take_sync()
            self.roster.touch(member)
        elif (member := answers.joins.get(answer)) is not None:
            member.take_join()
            if member.is_new and not member.asked.in_two_steps:  # its client never learned the id
                self._drop(member)
                self._changed()
            else:
                self.roster.touch(member)
        self._tell_if_unused()

    # Calls of the owner

    def generation_written(self, generation: int) -> None:
        """Begin a generation, whose number is in the tree now, with the members that wait for it."""
        self._step.is_writing = False
        self.generation = generation
        if self.state is not GroupState.PREPARING or not self._drop_absent():
            self._tell_if_unused()
            return
        waiting = self.roster.waiting
        if self.leader not in {member.member_id for member in waiting}:
            self.leader = waiting[0].member_id
        self.protocol = choose_protocol(list(self.roster))
        self.state = GroupState.COMPLETING
        self._step.begin(self.roster.rebalance_timeout, self._drop_unsynced)
        for member in self.roster:  # also static ones that do not wait
            member.has_synced = member.is_new = False
        answers: list[Callable[[], None]] = []
        # The leader first: the list of all members, which it is told, then waits for no others.
        for member in sorted(waiting, key=lambda member: member.member_id != self.leader):
            self.roster.touch(member)
            if (answer := member.take_join()) is not None:
                answers.append(partial(answer, self._current(member)))
        self._owner.answer(answers)

    def give_up(self, error: int = NOT_COORDINATOR) -> None:
        """Answer all requests that wait with an error, and forget everything."""
        self._step.end()
        self.state = GroupState.EMPTY
        members = self.roster.clear()
        self._owner.answer([give for member in members for give in member.take_answers(error)])

    # Joining

    def _join_new(self, asked: JoinRequest, answer: AnswerJoin) -> None:
        roster = self.roster
        holder = "" if asked.instance_id is None else roster.static_id(asked.instance_id)
        if holder:
            self._replace(roster.members[holder], asked, answer)
            return
        if len(roster) + len(roster.given) >= self._limits.members:
            answer(JoinAnswer(GROUP_MAX_SIZE_REACHED))
            return
        member_id = asked.id_with(self._new_id())
        if asked.instance_id is None and asked.in_two_steps:
            expects = roster.expect(member_id, asked.session_timeout)
            answer(JoinAnswer(MEMBER_ID_REQUIRED, member_id) if expects else JoinAnswer(GROUP_MAX_SIZE_REACHED))
        else:
            self._add(evolve(asked, member_id=member_id), answer)

    def _join_known(self, asked: JoinRequest, answer: AnswerJoin) -> None:
        member_id = asked.member_id
        if asked.instance_id is None and self.roster.expected(member_id):
            self._add(asked, answer)
            return
        error = self.roster.check(member_id, asked.instance_id)
        if error:
            answer(JoinAnswer(error, member_id))
            return
        member = self.roster.members[member_id]
        stays = self.state is GroupState.COMPLETING or (self.state is GroupState.STABLE and member_id != self.leader)
        if stays and member.asked.protocols == asked.protocols:
            self.roster.touch(member)
            answer(self._current(member))
        elif not self.roster.change(member, asked):
            answer(JoinAnswer(GROUP_MAX_SIZE_REACHED, member_id))
        else:
            member.tell_join(JoinAnswer(REBALANCE_IN_PROGRESS, member_id))  # one that the client has given up
            member.await_join(answer)
            self._prepare()

    def _add(self, asked: JoinRequest, answer: AnswerJoin) -> None:
        if self.roster.add(asked, answer, NEW_MEMBER_SECONDS):
            self._step.is_longer = True
            self._prepare()
        else:
            answer(JoinAnswer(GROUP_MAX_SIZE_REACHED, asked.member_id))
            self._joined()

    def _replace(self, member: KafkaMember, asked: JoinRequest, answer: AnswerJoin) -> None:
        """Let a static member that has started again have its former place and assignment, under another id."""
        former, leader = member.member_id, self.leader
        if not self.roster.change(member, evolve(asked, member_id=asked.id_with(self._new_id()))):
            answer(JoinAnswer(GROUP_MAX_SIZE_REACHED))
            return
        member.tell_join(JoinAnswer(FENCED_INSTANCE_ID, former))
        member.tell_sync(SyncAnswer(FENCED_INSTANCE_ID))
        if leader == former:
            self.leader = member.member_id
        self.roster.touch(member, NEW_MEMBER_SECONDS if member.is_new else None)
        if self.state is GroupState.STABLE and choose_protocol(list(self.roster)) == self.protocol:
            # It is told of the former leader, also where that was itself: then it does not share out anew.
            answer(evolve(self._current(member), leader=leader, members=()))
        else:
            member.await_join(answer)
            self._prepare()

    # Rebalancing

    def _prepare(self) -> None:
        """Begin to prepare a generation, unless that is under way; go on if all members are there."""
        if self.state is GroupState.EMPTY:
            self.state = GroupState.PREPARING
            self._step.begin_initially(self._limits.initial_delay, self.roster.rebalance_timeout, self._wait_for_all)
        elif self.state is not GroupState.PREPARING:
            self.state = GroupState.PREPARING
            self._step.begin(self.roster.rebalance_timeout, self._finish)
            self._answer_syncs(lambda member: SyncAnswer(REBALANCE_IN_PROGRESS))
        self._joined()

    def _wait_for_all(self) -> None:
        """Go on after the delay of a new group, once all members that were given an id have joined."""
        self._step.begin(self.roster.rebalance_timeout, self._finish)
        self._joined()

    def _joined(self) -> None:
        """Begin the generation if all members wait for it."""
        is_ready = self.state is GroupState.PREPARING and not self._step.is_initial and not self.roster.given
        if is_ready and self.roster.all_wait:
            self._finish()

    def _finish(self) -> None:
        if not self._step.is_writing and self._drop_absent():
            self._step.end()
            self._step.is_writing = True
            self._owner.write_generation(self, self.generation + 1)
        self._tell_if_unused()

    def _drop_absent(self) -> bool:
        """Drop the members that have not joined; return False if nobody has, so that the group goes on waiting.

        Static members stay until their session timeout.
        """
        for member in self.roster:
            if member.answer_join is None and member.instance_id is None:
                self._log.info(
                    "group {group}: member {member} is removed: it has not joined generation {generation} in time",
                    group=self.name, member=member.member_id, generation=self.generation + 1,
                )  # fmt: skip
                self._drop(member)
        if self.roster.waiting:
            return True
        if self.roster:
            self._step.begin(self.roster.rebalance_timeout, self._finish)
        else:
            self._changed()
        return False

    def _drop_unsynced(self) -> None:
        """Begin another generation without the members that have not asked for their assignments in time."""
        for member in self.roster:
            if not member.has_synced:
                self._log.info(
                    "group {group}: member {member} is removed: it has not asked for its assignment in time",
                    group=self.name, member=member.member_id,
                )  # fmt: skip
                self._drop(member)
        self._changed()
        self._tell_if_unused()

    def _assign(self, assignments: Mapping[str, bytes]) -> None:
        """Hand out the leader's assignments."""
        if not self.roster.assign(assignments):
            # Java's client waits after this code and asks again; one that it does not expect here ends its application.
            self.roster.members[self.leader].tell_sync(SyncAnswer(COORDINATOR_NOT_AVAILABLE))
            return
        self.state = GroupState.STABLE
        self._answer_syncs(lambda member: SyncAnswer(0, member.assignment))

    def _answer_syncs(self, answer_to: Callable[[KafkaMember], SyncAnswer]) -> None:
        """Answer all who wait for their assignments."""
        answers: list[Callable[[], None]] = []
        for member in tuple(self.roster.answers.syncs.values()):
            self.roster.touch(member)
            if (answer := member.take_sync()) is not None:
                answers.append(partial(answer, answer_to(member)))
        self._owner.answer(answers)

    def _current(self, member: KafkaMember) -> JoinAnswer:
        """Return the answer to a request to join the present generation."""
        members: tuple[ListedMember, ...] = ()
        if member.member_id == self.leader:
            members = tuple(
                [ListedMember(each.member_id, each.instance_id, each.metadata(self.protocol)) for each in self.roster]
            )
        return JoinAnswer(0, member.member_id, self.generation, self.protocol, self.leader, members)

    # Members

    def _check(self, member_id: str, instance_id: str | None, generation: int) -> int:
        error = self.roster.check(member_id, instance_id)
        return error or (ILLEGAL_GENERATION if generation != self.generation else 0)

    def _expired(self, member: KafkaMember) -> None:
        self._log.info(
            "group {group}: member {member} is removed: it was not heard of within its session timeout of {timeout} s",
            group=self.name, member=member.member_id, timeout=member.asked.session_timeout,
        )  # fmt: skip
        self._drop(member)
        self._changed()
        self._tell_if_unused()

    def _not_joined(self) -> None:
        self._joined()
        self._tell_if_unused()

    def _changed(self) -> None:
        """Begin another generation after members have gone."""
        if not self.roster:
            self._step.end()
            self.state = GroupState.EMPTY
        elif self.state is GroupState.PREPARING:
            self._joined()
        else:
            self._prepare()

    def _drop(self, member: KafkaMember) -> None:
        self.roster.remove(member)
        member.tell_join(JoinAnswer(UNKNOWN_MEMBER_ID))
        member.tell_sync(SyncAnswer(UNKNOWN_MEMBER_ID))

    def _tell_if_unused(self) -> None:
        if self.roster.is_unused:
            self._owner.emptied(self)
