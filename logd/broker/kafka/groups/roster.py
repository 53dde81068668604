"""The members of one group: their session timeouts and assignors, the ids given to clients, the memory of all this."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from logd.broker.kafka.error_codes import FENCED_INSTANCE_ID, UNKNOWN_MEMBER_ID
from logd.broker.kafka.groups.limits import MemberMemory
from logd.broker.kafka.groups.members import AnswerJoin, JoinRequest, KafkaMember, WaitingAnswers, request_size
from logd.interfaces import Clock, Timer

#: The most assignors that one member may know: those of all are compared for each generation. Clients name a few.
_MOST_PROTOCOLS = 100
#: Seconds of the shortest rebalance timeout: with none at all no member could ask for its assignment in time, and a
#: group whose members do not join would look for them in each turn of the reactor.
_LEAST_REBALANCE = 1.0
#: Bytes that an id takes beside its letters until its member joins.
_GIVEN_BYTES = 1000


class Roster:
    """See the module. Iterates over the members in the order in which they joined, whatever is removed meanwhile."""

    def __init__(
        self,
        clock: Clock,
        memory: MemberMemory,
        expired: Callable[[KafkaMember], None],
        not_joined: Callable[[], None],
        later: Callable[[Callable[[], None]], None],
    ) -> None:
        """``expired(member)``: it was not heard of in time. ``not_joined()``: an id was given, and was not used.

        ``later(work)``: see GroupOwner.
        """
        self._clock = clock
        self._memory = memory
        self._later = later
        self._expired = expired
        self._not_joined = not_joined
        #: True once this broker no longer coordinates the group: its members may be with another one.
        self.is_given_up = False
        self.members: dict[str, KafkaMember] = {}
        #: The ids that were given to new members, which have not joined with them yet.
        self.given: dict[str, Timer] = {}
        self.answers = WaitingAnswers()
        self._known = _KnownAssignors()
        #: The static members by their names.
        self._static: dict[str, KafkaMember] = {}

    def __iter__(self) -> Iterator[KafkaMember]:
        return iter(tuple(self.members.values()))

    def __len__(self) -> int:
        return len(self.members)

    @property
    def is_unused(self) -> bool:
        """True if there are no members, and none is expected."""
        return not (self.members or self.given)

    @property
    def protocol_type(self) -> str:
        """The kind of the members, in their own words, such as "consumer" or "connect"."""
        return next((member.asked.protocol_type for member in self), "")

    @property
    def all_wait(self) -> bool:
        """True if the requests to join of all members wait."""
        return len(self.answers.joins) == len(self.members)

    @property
    def waiting(self) -> list[KafkaMember]:
        """The members whose requests to join wait."""
        return [member for member in self.members.values() if member.answer_join is not None]

    @property
    def rebalance_timeout(self) -> float:
        """The longest of all members' rebalance timeouts, in seconds; no shorter than a client can keep."""
        return max([_LEAST_REBALANCE, *[member.asked.rebalance_timeout for member in self.members.values()]])

    def check(self, member_id: str, instance_id: str | None) -> int:
        """Return the error of a request in the name of a member, 0 for none."""
        if instance_id is not None:
            holder = self.static_id(instance_id)
            if holder != member_id:
                return FENCED_INSTANCE_ID if holder else UNKNOWN_MEMBER_ID
        return 0 if member_id in self.members else UNKNOWN_MEMBER_ID

    def static_id(self, instance_id: str) -> str:
        """Return the id of the static member of that name, "" if there is none."""
        member = self._static.get(instance_id)
        return "" if member is None else member.member_id

    def fits(self, asked: JoinRequest) -> bool:
        """Return whether the others know an assignor of a request to join; whether there is one, if there are none."""
        if not asked.protocol_type or len(asked.protocols) > _MOST_PROTOCOLS:
            return False
        own = self.members.get(asked.member_id) if asked.instance_id is None else self._static.get(asked.instance_id)
        return self._known.fits(asked, None if own is None else own.asked)

    def expect(self, member_id: str, seconds: float) -> bool:
        """Expect a new member to join with the id that it is given now, within that time.

        Return False if there is no memory for that.
        """
        if not self._memory.change(0, given_size(member_id)):
            return False
        self.given[member_id] = self._clock.callLater(seconds, self._was_not_used, member_id)
        return True

    def expected(self, member_id: str) -> bool:
        """Expect the member no more; return whether it was expected."""
        timer = self.given.pop(member_id, None)
        if timer is not None:
            timer.cancel()
            self._memory.change(given_size(member_id), 0)
        return timer is not None

    def add(self, asked: JoinRequest, answer: AnswerJoin, seconds: float) -> bool:
        """Add a member, whose first request waits ``seconds`` at most; return False if there is no memory for it."""
        if not self._memory.change(0, request_size(asked)):
            return False
        member = self.members[asked.member_id] = KafkaMember(asked.member_id, asked, self.answers)
        member.await_join(answer)
        self._count(member)
        self.touch(member, seconds)
        return True

    def change(self, member: KafkaMember, asked: JoinRequest) -> bool:
        """Note what a member asks for now, its id included; return False if there is no memory for that."""
        if not self._memory.change(request_size(member.asked), request_size(asked)):
            return False
        self._discount(member)
        member.asked = asked
        self._count(member)
        if member.member_id != asked.member_id:
            member.member_id = asked.member_id
            self.members = {each.member_id: each for each in self.members.values()}
        return True

    def assign(self, assignments: Mapping[str, bytes]) -> bool:
        """Note the assignments, none for members that are not in it; return False if there is no memory for them."""
        given = {member_id: assignments.get(member_id, b"") for member_id in self.members}
        before = sum(len(member.assignment) for member in self)
        if not self._memory.change(before, sum(map(len, given.values()))):
            return False
        for member in self:
            member.assignment = given[member.member_id]
        return True

    def remove(self, member: KafkaMember) -> None:
        """Remove a member."""
        del self.members[member.member_id]
        self._discount(member)
        self._memory.change(member.size, 0)
        if member.timer is not None:
            member.timer.cancel()
            member.timer = None

    def clear(self) -> list[KafkaMember]:
        """Remove and return all members, and expect none, as the group is given up."""
        self.is_given_up = True
        members = list(self)
        for member in members:
            self.remove(member)
        for member_id in tuple(self.given):
            self.expected(member_id)
        return members

    def touch(self, member: KafkaMember, seconds: float | None = None) -> None:
        """Note that a member lives: it has to be heard of again within ``seconds``, by default its session timeout."""
        member.deadline = self._clock.seconds() + (member.asked.session_timeout if seconds is None else seconds)
        if member.timer is None or member.timer_at > member.deadline:
            self._set_timer(member)

    def _count(self, member: KafkaMember) -> None:
        self._known.add(member.asked)
        if member.instance_id is not None:
            self._static[member.instance_id] = member

    def _discount(self, member: KafkaMember) -> None:
        self._known.remove(member.asked)
        if member.instance_id is not None:
            del self._static[member.instance_id]

    def _set_timer(self, member: KafkaMember) -> None:
        if member.timer is not None:
            member.timer.cancel()
        left = max(member.deadline - self._clock.seconds(), 0.0)
        member.timer, member.timer_at = self._clock.callLater(left, self._look_after, member), member.deadline

    def _look_after(self, member: KafkaMember) -> None:
        member.timer = None
        if member.is_waiting and not member.is_new:
            return  # it is not heard of because it waits for us; the answer begins its time anew
        if member.deadline > self._clock.seconds():
            self._set_timer(member)
        else:
            # Thousands that a lost network has silenced are due together, and the end of each takes 0.03 ms and more.
            self._later(partial(self._expire, member))

    def _expire(self, member: KafkaMember) -> None:
        """End a member, unless it was heard of meanwhile, or is gone."""
        waits = member.is_waiting and not member.is_new
        if self.members.get(member.member_id) is member and not waits and member.deadline <= self._clock.seconds():
            self._expired(member)

    def _was_not_used(self, member_id: str) -> None:
        del self.given[member_id]
        self._memory.change(given_size(member_id), 0)
        self._not_joined()


def given_size(member_id: str) -> int:
    """Return the bytes that an id takes which was given, about, with its timer."""
    return _GIVEN_BYTES + len(member_id)


class _KnownAssignors:
    """The assignors that the members know, counted: a request to join is not compared with all members.

    Each member counts by what it asked for last.
    """

    def __init__(self) -> None:
        self._members = 0
        self._types: Counter[str] = Counter()
        self._names: Counter[str] = Counter()

    def add(self, asked: JoinRequest) -> None:
        """Count a member."""
        self._members += 1
        self._types[asked.protocol_type] += 1
        self._names.update(asked.names)

    def remove(self, asked: JoinRequest) -> None:
        """Count a member no more."""
        self._members -= 1
        for counts, names in ((self._types, (asked.protocol_type,)), (self._names, asked.names)):
            for name in names:
                counts[name] -= 1
                if not counts[name]:
                    del counts[name]

    def fits(self, asked: JoinRequest, own: JoinRequest | None) -> bool:
        """Return whether all members are of the kind of a request to join, and know one of its assignors.

        ``own``: what the same member asked for before, which does not count; None for a new one.
        """
        others, own_type, own_names = self._members, "", frozenset[str]()
        if own is not None:
            others, own_type, own_names = others - 1, own.protocol_type, own.names
        if self._types[asked.protocol_type] - (own_type == asked.protocol_type) != others:
            return False
        return any(self._names[name] - (name in own_names) == others for name in asked.names)
