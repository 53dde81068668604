"""The members of a group of Kafka clients, and what they ask and are told."""

from __future__ import annotations

import enum
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from attrs import Factory, define, field, frozen

from logd.interfaces import Timer

#: Bytes that a member takes beside its texts and what its client has sent.
_MEMBER_BYTES = 2000


class GroupState(enum.Enum):
    """The state of a group, with Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


@define
class Caller:
    """The client of a connection: where it is, and its name for itself in its last request."""

    host: str
    client_id: str = ""


class GroupProtocol(NamedTuple):
    """An assignor that a member knows, with what the member tells the leader for it."""

    name: str
    metadata: bytes


@frozen
class JoinRequest:
    """A request to join a group. Times are in seconds."""

    member_id: str
    instance_id: str | None
    session_timeout: float
    #: The time for which the others wait for this member to join the next generation.
    rebalance_timeout: float
    protocol_type: str
    protocols: tuple[GroupProtocol, ...]
    client_id: str = ""
    client_host: str = ""
    #: A member without an id is given one first, and joins by a second request: so no member is left without a client.
    in_two_steps: bool = False
    #: The assignors that the member knows.
    names: frozenset[str] = field(
        default=Factory(lambda self: frozenset(each.name for each in self.protocols), takes_self=True),
        init=False, eq=False, repr=False,
    )  # fmt: skip

    def id_with(self, unique: str) -> str:
        """Return an id for the member: a response has room for it, however long the names are that its client gave."""
        return f"{(self.instance_id or self.client_id or 'member')[:200]}-{unique}"


class ListedMember(NamedTuple):
    """A member as the leader is told of it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@frozen
class JoinAnswer:
    """The answer to a request to join; ``members`` is for the leader."""

    error: int = 0
    member_id: str = ""
    generation: int = -1
    protocol: str = ""
    leader: str = ""
    members: tuple[ListedMember, ...] = ()


@frozen
class SyncAnswer:
    """The answer to a member that asks for its assignment."""

    error: int = 0
    assignment: bytes = b""


AnswerJoin = Callable[[JoinAnswer], None]
AnswerSync = Callable[[SyncAnswer], None]


@define(eq=False)
class WaitingAnswers:
    """The members of a group by the functions that answer their waiting requests."""

    joins: dict[Callable[..., None], KafkaMember] = field(factory=dict)
    syncs: dict[Callable[..., None], KafkaMember] = field(factory=dict)


@define(eq=False)
class KafkaMember:
    """A member of a group."""

    member_id: str
    #: The member's last request to join.
    asked: JoinRequest
    #: Shared by all members of the group.
    _waiting: WaitingAnswers = field(factory=WaitingAnswers, repr=False)
    assignment: bytes = b""
    #: Answers its request to join, or the one for its assignment, while it waits.
    answer_join: AnswerJoin | None = None
    answer_sync: AnswerSync | None = None
    #: True until its first request to join is answered.
    is_new: bool = True
    #: True once it has asked for its assignment of the generation.
    has_synced: bool = False
    #: The time until which it has to be heard of again.
    deadline: float = 0.0
    #: The timer that looks at the deadline, and its time, which may be earlier: heartbeats do not set a timer each.
    timer: Timer | None = field(default=None, repr=False)
    timer_at: float = 0.0

    @property
    def instance_id(self) -> str | None:
        """The name of a static member; None for a dynamic one."""
        return self.asked.instance_id

    @property
    def size(self) -> int:
        """The bytes that the member takes, about."""
        return request_size(self.asked) + len(self.assignment)

    @property
    def is_waiting(self) -> bool:
        """True while one of its requests is not answered."""
        return self.answer_join is not None or self.answer_sync is not None

    def metadata(self, protocol: str) -> bytes:
        """Return what the member tells the leader for an assignor."""
        return next((each.metadata for each in self.asked.protocols if each.name == protocol), b"")

    def await_join(self, answer: AnswerJoin) -> None:
        """Have its request to join wait."""
        self.answer_join = answer
        self._waiting.joins[answer] = self

    def await_sync(self, answer: AnswerSync) -> None:
        """Have its request for its assignment wait."""
        self.answer_sync = answer
        self._waiting.syncs[answer] = self

    def take_join(self) -> AnswerJoin | None:
        """Return what answers its request to join, which waits no more; None if none does."""
        answer, self.answer_join = self.answer_join, None
        if answer is not None:
            del self._waiting.joins[answer]
        return answer

    def take_sync(self) -> AnswerSync | None:
        """Return what answers its request for its assignment, which waits no more; None if none does."""
        answer, self.answer_sync = self.answer_sync, None
        if answer is not None:
            del self._waiting.syncs[answer]
        return answer

    def take_answers(self, error: int) -> list[Callable[[], None]]:
        """Return calls that answer with an error all that waits; it waits no more."""
        join, sync = self.take_join(), self.take_sync()
        answers: list[Callable[[], None]] = []
        if join is not None:
            answers.append(partial(join, JoinAnswer(error, self.member_id)))
        if sync is not None:
            answers.append(partial(sync, SyncAnswer(error)))
        return answers

    def tell_join(self, answer: JoinAnswer) -> None:
        """Answer its request to join, if there is one."""
        tell = self.take_join()
        if tell is not None:
            tell(answer)

    def tell_sync(self, answer: SyncAnswer) -> None:
        """Answer its request for its assignment, if there is one."""
        tell = self.take_sync()
        if tell is not None:
            tell(answer)


def request_size(asked: JoinRequest) -> int:
    """Return the bytes that a member takes by its request to join, about."""
    texts = (asked.member_id, asked.instance_id or "", asked.protocol_type, asked.client_id, asked.client_host)
    sent = sum(len(each.name) + len(each.metadata) + 100 for each in asked.protocols)
    return _MEMBER_BYTES + sum(map(len, texts)) + sent


def choose_protocol(members: list[KafkaMember]) -> str:
    """Return the assignor that all members know and most of them name first; among equals, the first member's choice.

    "" where there is none that all know.
    """
    known = frozenset.intersection(*[member.asked.names for member in members])
    preferred = [each.name for each in members[0].asked.protocols if each.name in known]
    votes = dict.fromkeys(preferred, 0)
    for member in members:
        choice = next((each.name for each in member.asked.protocols if each.name in known), None)
        if choice is not None:
            votes[choice] += 1
    return max(preferred, key=lambda name: votes[name], default="")
