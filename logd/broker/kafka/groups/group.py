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

import enum
from collections.abc import Callable, Mapping
from typing import Protocol

from attrs import evolve
from twisted.logger import Logger

from logd.broker.kafka.error_codes import (
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
    GroupMember,
    JoinAnswer,
    JoinRequest,
    ListedMember,
    SyncAnswer,
    choose_protocol,
    request_size,
)
from logd.interfaces import Clock, Timer

#: Seconds for which a request to join of a new member waits: by then its client has given up, and asks again.
NEW_MEMBER_SECONDS = 300.0


class GroupState(enum.Enum):
    """The state of a group, with Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class GroupOwner(Protocol):
    """The part of the coordinator that a group calls."""

    def write_generation(self, group: KafkaGroup, generation: int) -> None:
        """Write the number to the tree, then call ``group.generation_written``, or ``give_up`` if that fails."""
        ...

    def emptied(self, group: KafkaGroup) -> None:
        """Give the group back: it has no members any more."""
        ...


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
        self._clock = clock
        self._limits = limits
        self._memory = memory
        self._owner = owner
        self._new_id = new_id
        self.generation = generation
        self.state = GroupState.EMPTY
        #: The kind of the members, in their own words, such as "consumer" or "connect".
        self.protocol_type = ""
        #: The assignor of the generation.
        self.protocol = ""
        #: The id of the leader; "" while the group has none.
        self.leader = ""
        #: In the order in which they joined.
        self.members: dict[str, GroupMember] = {}
        #: The ids that were given to new members, which have not joined with them yet.
        self._given: dict[str, Timer] = {}
        #: The timer and the rules of a generation that begins.
        self._phase = _Phase(clock)

    @property
    def is_unused(self) -> bool:
        """True if the group has no members, and none is expected."""
        return not (self.members or self._given)

    # Requests

    def join(self, asked: JoinRequest, answer: AnswerJoin) -> None:
        """Let a member join the next generation. Its answer waits until that begins."""
        error = self._refusal(asked)
        if error:
            answer(JoinAnswer(error, asked.member_id))
        elif not asked.member_id:
            self._join_new(asked, answer)
        else:
            self._join_known(asked, answer)
        if self.is_unused:
            self._owner.emptied(self)

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
        member = self.members[member_id]
        member.has_synced = True
        self._touch(member)
        if self.state is GroupState.COMPLETING:
            member.tell_sync(SyncAnswer(REBALANCE_IN_PROGRESS))  # an earlier request, that the client has given up
            member.answer_sync = answer
            if member_id == self.leader:
                self._assign(assignments)
        else:
            answer(SyncAnswer(0, member.assignment))
        if self.state is GroupState.STABLE and all(each.has_synced for each in self.members.values()):
            self._phase.end()

    def heartbeat(self, member_id: str, instance_id: str | None, generation: int) -> int:
        """Note that a member lives; return an error, 0 for none."""
        error = self._check(member_id, instance_id, generation)
        if error:
            return error
        self._touch(self.members[member_id])
        return REBALANCE_IN_PROGRESS if self.state is GroupState.PREPARING else 0

    def leave(self, member_id: str, instance_id: str | None) -> int:
        """Remove a member, or the static member of that name; return an error, 0 for none."""
        if member_id in self._given and instance_id is None:
            self._given.pop(member_id).cancel()
            self._joined()
        else:
            if instance_id is not None and not member_id:
                member_id = self._static_id(instance_id)
            error = self._check(member_id, instance_id)
            if error:
                return error
            self._remove(self.members[member_id])
        if self.is_unused:
            self._owner.emptied(self)
        return 0

    def check_commit(self, member_id: str, instance_id: str | None, generation: int) -> int:
        """Return the error that forbids a member to commit now, 0 for none."""
        if generation < 0 and not member_id and instance_id is None:
            return UNKNOWN_MEMBER_ID if self.members else 0
        error = self._check(member_id, instance_id, generation)
        if error:
            return error
        self._touch(self.members[member_id])
        return REBALANCE_IN_PROGRESS if self.state is GroupState.COMPLETING else 0

    def not_awaited(self, answer: AnswerJoin | AnswerSync) -> None:
        """Note that the connection of the request that waits for ``answer`` is lost."""
        for member in tuple(self.members.values()):
            if member.answer_sync == answer:
                member.answer_sync = None
                self._touch(member)
            elif member.answer_join == answer:
                member.answer_join = None
                if member.is_new and not member.asked.in_two_steps:  # its client never learned the id
                    self._remove(member)
                else:
                    self._touch(member)
        if self.is_unused:
            self._owner.emptied(self)

    # Calls of the owner

    def generation_written(self, generation: int) -> None:
        """Begin a generation, whose number is in the tree now, with the members that wait for it."""
        self._phase.is_writing = False
        self.generation = generation
        if self.state is not GroupState.PREPARING or not self._drop_absent():
            return
        waiting = [member for member in self.members.values() if member.answer_join is not None]
        if self.leader not in {member.member_id for member in waiting}:
            self.leader = waiting[0].member_id
        self.protocol = choose_protocol(list(self.members.values()))
        self.state = GroupState.COMPLETING
        self._phase.begin(self._rebalance_timeout(), self._drop_unsynced)
        for member in self.members.values():
            member.has_synced = False
        for member in waiting:
            member.is_new = False
            self._touch(member)
            member.tell_join(self._current(member))

    def give_up(self, error: int = NOT_COORDINATOR) -> None:
        """Answer all requests that wait with an error, and forget everything."""
        self._phase.end()
        for timer in self._given.values():
            timer.cancel()
        self._given.clear()
        members, self.members = self.members, {}
        self.state = GroupState.EMPTY
        for member in members.values():
            self._let_go(member)
            member.tell_join(JoinAnswer(error, member.member_id))
            member.tell_sync(SyncAnswer(error))

    # Joining

    def _refusal(self, asked: JoinRequest) -> int:
        others = [each for each in self.members.values() if not _is_same(each, asked)]
        if not asked.protocol_type or not asked.protocols:
            return INCONSISTENT_GROUP_PROTOCOL
        if not others:
            return 0
        known = set.intersection(
            {each.name for each in asked.protocols}, *({p.name for p in m.asked.protocols} for m in others)
        )
        return 0 if known and asked.protocol_type == self.protocol_type else INCONSISTENT_GROUP_PROTOCOL

    def _join_new(self, asked: JoinRequest, answer: AnswerJoin) -> None:
        if asked.instance_id is not None and self._static_id(asked.instance_id):
            self._replace(self.members[self._static_id(asked.instance_id)], asked, answer)
            return
        if len(self.members) + len(self._given) >= self._limits.members:
            answer(JoinAnswer(GROUP_MAX_SIZE_REACHED))
            return
        member_id = f"{asked.instance_id or asked.client_id[:200] or 'member'}-{self._new_id()}"
        if asked.instance_id is None and asked.in_two_steps:
            timer = self._clock.callLater(asked.session_timeout, self._not_joined, member_id)
            self._given[member_id] = timer
            answer(JoinAnswer(MEMBER_ID_REQUIRED, member_id))
        else:
            self._add(evolve(asked, member_id=member_id), answer)

    def _join_known(self, asked: JoinRequest, answer: AnswerJoin) -> None:
        member_id = asked.member_id
        if member_id in self._given and asked.instance_id is None:
            self._given.pop(member_id).cancel()
            self._add(asked, answer)
            return
        error = self._check(member_id, asked.instance_id)
        if error:
            answer(JoinAnswer(error, member_id))
            return
        member = self.members[member_id]
        is_same = member.asked.protocols == asked.protocols
        stays = self.state is GroupState.COMPLETING or (self.state is GroupState.STABLE and member_id != self.leader)
        if is_same and stays:
            self._touch(member)
            answer(self._current(member))
        else:
            self._ask_again(member, asked, answer)

    def _add(self, asked: JoinRequest, answer: AnswerJoin) -> None:
        if not self._memory.change(0, request_size(asked)):
            answer(JoinAnswer(GROUP_MAX_SIZE_REACHED, asked.member_id))
            return
        member = GroupMember(asked.member_id, asked, answer_join=answer)
        if not self.members:
            self.protocol_type = asked.protocol_type
        self.members[asked.member_id] = member
        self._touch(member, NEW_MEMBER_SECONDS)
        self._phase.is_longer = True
        self._prepare()

    def _replace(self, member: GroupMember, asked: JoinRequest, answer: AnswerJoin) -> None:
        """Let a static member that has started again have its former place and assignment, under another id."""
        former, leader = member.member_id, self.leader
        asked = evolve(asked, member_id=f"{asked.instance_id}-{self._new_id()}")
        if not self._memory.change(request_size(member.asked), request_size(asked)):
            answer(JoinAnswer(GROUP_MAX_SIZE_REACHED))
            return
        member.tell_join(JoinAnswer(FENCED_INSTANCE_ID, former))
        member.tell_sync(SyncAnswer(FENCED_INSTANCE_ID))
        member.member_id, member.asked = asked.member_id, asked
        self.members = {each.member_id: each for each in self.members.values()}
        if leader == former:
            self.leader = asked.member_id
        self._touch(member)
        if self.state is GroupState.STABLE and choose_protocol(list(self.members.values())) == self.protocol:
            # It is told of the former leader, also where that was itself: then it does not share out anew.
            answer(evolve(self._current(member), leader=leader, members=()))
        else:
            member.answer_join = answer
            self._prepare()

    def _ask_again(self, member: GroupMember, asked: JoinRequest, answer: AnswerJoin) -> None:
        """Take a member's request to join the next generation."""
        if not self._memory.change(request_size(member.asked), request_size(asked)):
            answer(JoinAnswer(GROUP_MAX_SIZE_REACHED, member.member_id))
            return
        member.tell_join(JoinAnswer(REBALANCE_IN_PROGRESS, member.member_id))  # one that the client has given up
        member.asked, member.answer_join = asked, answer
        if len(self.members) == 1:
            self.protocol_type = asked.protocol_type
        self._prepare()

    # Rebalancing

    def _prepare(self) -> None:
        """Begin to prepare a generation, unless that is under way; go on if all members are there."""
        if self.state is GroupState.EMPTY:
            self._phase.begin_initially(self._limits.initial_delay, self._rebalance_timeout(), self._wait_for_all)
        elif self.state is not GroupState.PREPARING:
            for member in tuple(self.members.values()):
                member.tell_sync(SyncAnswer(REBALANCE_IN_PROGRESS))
                self._touch(member)
            self._phase.begin(self._rebalance_timeout(), self._finish)
        self.state = GroupState.PREPARING
        self._joined()

    def _wait_for_all(self) -> None:
        """Go on after the delay of a new group, once all members that were given an id have joined."""
        self._phase.begin(self._rebalance_timeout(), self._finish)
        self._joined()

    def _joined(self) -> None:
        """Begin the generation if all members wait for it."""
        is_ready = self.state is GroupState.PREPARING and not self._phase.is_initial and not self._given
        if is_ready and all(member.answer_join is not None for member in self.members.values()):
            self._finish()

    def _finish(self) -> None:
        if not self._phase.is_writing and self._drop_absent():
            self._phase.end()
            self._phase.is_writing = True
            self._owner.write_generation(self, self.generation + 1)

    def _drop_absent(self) -> bool:
        """Drop the members that have not joined; return False if nobody has, so that the group goes on waiting.

        Static members stay until their session timeout.
        """
        for member in tuple(self.members.values()):
            if member.answer_join is None and member.instance_id is None:
                self._log.info(
                    "group {group}: member {member} is removed: it has not joined generation {generation} in time",
                    group=self.name, member=member.member_id, generation=self.generation + 1,
                )  # fmt: skip
                self._drop(member)
        if any(member.answer_join is not None for member in self.members.values()):
            return True
        if self.members:
            self._phase.begin(self._rebalance_timeout(), self._finish)
        else:
            self._phase.end()
            self.state = GroupState.EMPTY
            if self.is_unused:
                self._owner.emptied(self)
        return False

    def _drop_unsynced(self) -> None:
        """Begin another generation without the members that have not asked for their assignments in time."""
        absent = [member for member in self.members.values() if not member.has_synced]
        for member in absent:
            self._log.info(
                "group {group}: member {member} is removed, since it has not asked for its assignment in time",
                group=self.name, member=member.member_id,
            )  # fmt: skip
            self._drop(member)
        self._changed()

    def _assign(self, assignments: Mapping[str, bytes]) -> None:
        """Hand out the leader's assignments; members that are not in it get none."""
        given = {member.member_id: assignments.get(member.member_id, b"") for member in self.members.values()}
        before = sum(len(member.assignment) for member in self.members.values())
        if not self._memory.change(before, sum(map(len, given.values()))):
            self.members[self.leader].tell_sync(SyncAnswer(GROUP_MAX_SIZE_REACHED))
            return
        self.state = GroupState.STABLE
        for member in tuple(self.members.values()):
            member.assignment = given[member.member_id]
            if member.answer_sync is not None:
                self._touch(member)
                member.tell_sync(SyncAnswer(0, member.assignment))

    def _current(self, member: GroupMember) -> JoinAnswer:
        """Return the answer to a request to join the present generation."""
        members: tuple[ListedMember, ...] = ()
        if member.member_id == self.leader:
            members = tuple(
                [ListedMember(m.member_id, m.instance_id, m.metadata(self.protocol)) for m in self.members.values()]
            )
        return JoinAnswer(0, member.member_id, self.generation, self.protocol, self.leader, members)

    def _rebalance_timeout(self) -> float:
        return max((member.asked.rebalance_timeout for member in self.members.values()), default=0.0)

    # Members

    def _check(self, member_id: str, instance_id: str | None, generation: int | None = None) -> int:
        """Return the error of a request in the name of a member, 0 for none."""
        if instance_id is not None:
            holder = self._static_id(instance_id)
            if holder != member_id:
                return FENCED_INSTANCE_ID if holder else UNKNOWN_MEMBER_ID
        if member_id not in self.members:
            return UNKNOWN_MEMBER_ID
        return ILLEGAL_GENERATION if generation not in (None, self.generation) else 0

    def _static_id(self, instance_id: str) -> str:
        """Return the id of the static member of that name, "" if there is none."""
        return next((each.member_id for each in self.members.values() if each.instance_id == instance_id), "")

    def _touch(self, member: GroupMember, seconds: float | None = None) -> None:
        """Note that a member lives: it has to be heard of again within ``seconds``, by default its session timeout."""
        member.deadline = self._clock.seconds() + (member.asked.session_timeout if seconds is None else seconds)
        if member.timer is None or member.timer_at > member.deadline:
            self._set_timer(member)

    def _set_timer(self, member: GroupMember) -> None:
        if member.timer is not None:
            member.timer.cancel()
        left = max(member.deadline - self._clock.seconds(), 0.0)
        member.timer, member.timer_at = self._clock.callLater(left, self._look_after, member), member.deadline

    def _look_after(self, member: GroupMember) -> None:
        member.timer = None
        if member.is_waiting and not member.is_new:
            return  # it is not heard of because it waits for us; the answer begins its time anew
        if member.deadline > self._clock.seconds():
            self._set_timer(member)
            return
        self._log.info(
            "group {group}: member {member} is removed, since it was not heard of within its session timeout of "
            "{timeout} s",
            group=self.name, member=member.member_id, timeout=member.asked.session_timeout,
        )  # fmt: skip
        self._remove(member)
        if self.is_unused:
            self._owner.emptied(self)

    def _not_joined(self, member_id: str) -> None:
        """Forget an id that no member has joined with."""
        del self._given[member_id]
        self._joined()
        if self.is_unused:
            self._owner.emptied(self)

    def _remove(self, member: GroupMember) -> None:
        self._drop(member)
        self._changed()

    def _changed(self) -> None:
        """Begin another generation after a member has gone."""
        if not self.members:
            self._phase.end()
            self.state = GroupState.EMPTY
        elif self.state is GroupState.PREPARING:
            self._joined()
        else:
            self._prepare()

    def _drop(self, member: GroupMember) -> None:
        del self.members[member.member_id]
        self._let_go(member)
        member.tell_join(JoinAnswer(UNKNOWN_MEMBER_ID))
        member.tell_sync(SyncAnswer(UNKNOWN_MEMBER_ID))

    def _let_go(self, member: GroupMember) -> None:
        self._memory.change(member.size, 0)
        if member.timer is not None:
            member.timer.cancel()
            member.timer = None


class _Phase:
    """A generation that begins: the timer of its present step."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer: Timer | None = None
        #: True during the delay of a new group.
        self.is_initial = False
        #: True if the delay is to begin again, as a member has joined.
        self.is_longer = False
        #: True while the generation's number is being written.
        self.is_writing = False

    def begin(self, seconds: float, over: Callable[[], None]) -> None:
        """Call ``over()`` after that time."""
        self.end()
        self._timer = self._clock.callLater(seconds, self._over, over)

    def begin_initially(self, delay: float, longest: float, over: Callable[[], None]) -> None:
        """Call ``over()`` once no member has joined for ``delay`` seconds, after ``longest`` in any case."""
        self.end()
        self.is_initial, self.is_longer = True, False
        delay = min(delay, longest)
        self._timer = self._clock.callLater(delay, self._initial_over, delay, longest - delay, over)

    def end(self) -> None:
        """End the step."""
        self.is_initial = False
        timer, self._timer = self._timer, None
        if timer is not None:
            timer.cancel()

    def _initial_over(self, delay: float, left: float, over: Callable[[], None]) -> None:
        self._timer = None
        if self.is_longer and left > 0:
            self.begin_initially(delay, left, over)
        else:
            self._over(over)

    def _over(self, over: Callable[[], None]) -> None:
        self._timer = None
        self.is_initial = False
        over()


def _is_same(member: GroupMember, asked: JoinRequest) -> bool:
    """Return whether a request to join is one of this member."""
    if asked.instance_id is not None:
        return member.instance_id == asked.instance_id
    return member.member_id == asked.member_id
