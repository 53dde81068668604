"""Kafka's ElectLeaders, over what operators ask the controller for; it answers once the elected brokers lead."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from attrs import define, field
from twisted.internet.defer import Deferred

from logd.broker.kafka.administration.refusals import ChangeOutcome, Refused, code_of, outcome_of
from logd.broker.kafka.error_codes import (
    ELECTION_NOT_NEEDED,
    ELIGIBLE_LEADERS_NOT_AVAILABLE,
    INVALID_REQUEST,
    LEADER_NOT_AVAILABLE,
    PREFERRED_LEADER_NOT_AVAILABLE,
    REQUEST_TIMED_OUT,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from logd.broker.requests.core import BrokerCore
from logd.broker.requests.create_delete_topic import check_administration
from logd.broker.security.rights import Rights
from logd.checkedjson import excerpt
from logd.coord.errors import CoordinationError
from logd.deferreds.sleeping import sleep
from logd.errors import CoordinationUnavailable, LogdError
from logd.leadership import NO_LEADER
from logd.protocol.kafka.apis import APIS
from logd.protocol.requests.replicas.describe_replicas import OFFLINE
from logd.protocol.requests.replicas.operations import ANY_LEADER
from logd.security.access_rules import Operation
from logd.topic import TopicEntry

ELECT_LEADERS = APIS[43]
#: Kinds of elections.
PREFERRED, UNCLEAN = 0, 1
#: Seconds between two looks at whether the elected brokers lead, and the most for which a client may wait.
LOOK_SECONDS = 0.1
MOST_SECONDS = 60.0

Place = tuple[str, int]


@define(eq=False)
class KafkaElections:
    """The elections that one connection asks for. Each, and each refusal, stands in the log of administration."""

    _broker: BrokerCore
    _rights: Rights
    _sleeping: set[Deferred[None]] = field(factory=set, init=False)

    def lost(self) -> None:
        """Wait for no election on behalf of the lost connection."""
        for sleeping in tuple(self._sleeping):
            sleeping.cancel()

    async def elect_leaders(self, request: Any) -> Any:
        """Let preferred leaders lead, or, in an unclean election, the live replicas with the most of each."""
        unclean = request.election_type == UNCLEAN
        named: dict[str, dict[int, None]] = {}
        for each in request.topic_partitions or ():
            named.setdefault(each.topic, {}).update(dict.fromkeys(each.partitions))
        wanted: Mapping[str, Collection[int]] = named
        try:
            self._check(request.election_type)
            if request.topic_partitions is None:
                wanted = self._every_partition()
            seconds = min(max(request.timeout_ms / 1000, 0), MOST_SECONDS)
            outcomes = await self._elect(wanted, unclean, seconds, request.topic_partitions is not None)
            if request.topic_partitions is None:
                outcomes = {place: each for place, each in outcomes.items() if each.code != ELECTION_NOT_NEEDED}
            common = ChangeOutcome()
        except (Refused, LogdError) as error:
            action = "elect leaders uncleanly" if unclean else "elect preferred leaders"
            self._broker.administration_log.refused(self._rights.requester, action, "", str(error))
            common = ChangeOutcome(code_of(error), str(error))
            outcomes = {(topic, number): common for topic, numbers in wanted.items() for number in numbers}
        results = await self._results(outcomes)
        return ELECT_LEADERS.response(throttle_time_ms=0, error_code=common.code, replica_election_results=results)

    def _check(self, kind: int) -> None:
        self._rights.check_cluster(Operation.ALTER)
        check_administration(self._broker, "elect leaders")
        if kind not in (PREFERRED, UNCLEAN):
            raise Refused(INVALID_REQUEST, f"there is no kind {kind} of elections")

    def _every_partition(self) -> dict[str, list[int]]:
        """Return the partitions of all replicated topics."""
        found = {}
        for topic in self._broker.topics.names():
            entry = self._broker.topics.get(topic)
            if entry is not None and entry.replicated:
                found[topic] = sorted(entry.partitions)
        return found

    async def _elect(
        self, wanted: Mapping[str, Collection[int]], unclean: bool, seconds: float, named: bool
    ) -> dict[Place, ChangeOutcome]:
        """Ask for the elections that are needed, and wait until they are held. ``named``: the client names each."""
        clock, operations = self._broker.clock, self._broker.operations
        until = clock.seconds() + seconds
        try:
            draining = await operations.draining()
        except CoordinationError as error:
            raise CoordinationUnavailable(f"the coordination tree does not answer: {error}") from error
        if unclean:
            await self._until_noted(wanted, until)
        outcomes: dict[Place, ChangeOutcome] = {}
        #: By partition: the least leader epoch of an election that is held.
        waiting: dict[Place, int] = {}
        turns, live = self._broker.turns(), self._broker.brokers()
        for topic, numbers in wanted.items():
            epochs = {}
            for number in numbers:
                if turns.over:
                    await turns.rest()
                try:
                    epochs[number] = self._next_epoch(topic, number, live, draining, unclean)
                except Refused as error:
                    outcomes[topic, number] = ChangeOutcome(error.code, str(error))
            if unclean:
                led = [number for number in numbers if _is_led(outcomes.get((topic, number)))]
                everywhere = named or any(self._has_nobody_else(topic, number, live) for number in led)
                outcomes.update(await self._offline(topic, led, everywhere))
            asked = await self._ask(topic, tuple(epochs), unclean) if epochs else ChangeOutcome()
            for number, epoch in epochs.items():
                outcomes[topic, number] = asked
                if not asked.code:
                    waiting[topic, number] = epoch
        while waiting:
            for place, epoch in tuple(waiting.items()):
                state = operations.state(*place)
                if state is not None and state.leader_epoch >= epoch and state.leader != NO_LEADER:
                    del waiting[place]
            if not waiting or clock.seconds() >= until or self._broker.stopping:
                break
            await self._sleep(min(LOOK_SECONDS, until - clock.seconds()))
        for topic, number in waiting:
            text = f"the election of {topic}-{number} was asked for, and is not held yet"
            outcomes[topic, number] = ChangeOutcome(REQUEST_TIMED_OUT, text)
        return outcomes

    async def _sleep(self, seconds: float) -> None:
        sleeping = sleep(self._broker.clock, seconds)
        self._sleeping.add(sleeping)
        try:
            await sleeping
        finally:
            self._sleeping.discard(sleeping)

    def _next_epoch(self, topic: str, number: int, live: Container[int], draining: Iterable[int], unclean: bool) -> int:
        """Return the leader epoch behind an election. Raises Refused if none is needed, or possible."""
        operations, entry = self._broker.operations, self._broker.topics.get(topic)
        if entry is None or number not in entry.partitions:
            raise Refused(UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {number} of a topic {excerpt(topic)}")
        if not entry.replicated:
            raise _single(topic, number, entry, live, unclean)
        state = operations.state(topic, number)
        if state is None:
            raise Refused(LEADER_NOT_AVAILABLE, f"the state of {topic}-{number} is not known yet: try again")
        elected = operations.elected(entry, number, state, draining, unclean)
        if elected is not None:
            return elected.leader_epoch
        preferred, is_live = entry.partitions[number][0], state.leader in live
        if is_live and (unclean or state.leader == preferred):
            raise Refused(ELECTION_NOT_NEEDED, f"broker {state.leader} leads {topic}-{number} already")
        if unclean and state.leader != NO_LEADER:
            text = f"broker {state.leader}, which led {topic}-{number}, is gone, and no other one was chosen yet"
            raise Refused(REQUEST_TIMED_OUT, f"{text}: try again")
        if unclean:
            raise Refused(ELIGIBLE_LEADERS_NOT_AVAILABLE, f"no replica of {topic}-{number} is live")
        reason = "is drained" if preferred in draining else "is not live and in sync"
        text = f"the preferred leader of {topic}-{number}, broker {preferred}, {reason}"
        raise Refused(PREFERRED_LEADER_NOT_AVAILABLE, text)

    async def _until_noted(self, wanted: Mapping[str, Collection[int]], until: float) -> None:
        """Wait until the controller has noted which leaders have died: then others lead, or nobody does."""
        turns, live = self._broker.turns(), self._broker.brokers()
        left: list[Place] = []
        for topic, numbers in wanted.items():
            for number in numbers:
                if turns.over:
                    await turns.rest()
                if self._is_led_by_none_of(live, topic, number):
                    left.append((topic, number))
        while left and self._broker.clock.seconds() < until and not self._broker.stopping:
            await self._sleep(LOOK_SECONDS)
            live = self._broker.brokers()
            left = [place for place in left if self._is_led_by_none_of(live, *place)]

    def _is_led_by_none_of(self, live: Container[int], topic: str, number: int) -> bool:
        state = self._broker.operations.state(topic, number)
        return state is not None and state.leader != NO_LEADER and state.leader not in live

    def _has_nobody_else(self, topic: str, number: int, live: Container[int]) -> bool:
        """Return whether a leader is the only live replica that has everything: its log may be offline for long."""
        state, entry = self._broker.operations.state(topic, number), self._broker.topics.get(topic)
        if state is None or entry is None or len(entry.partitions.get(number, ())) < 2:
            return False
        return not any(broker in live for broker in {*state.in_sync, *state.last} - {state.leader})

    async def _offline(self, topic: str, numbers: Sequence[int], everywhere: bool) -> dict[Place, ChangeOutcome]:
        """Return the answers about those partitions of a topic whose leaders have offline logs.

        Each is the last one with everything, so that nobody else may lead while it is live. ``everywhere``: the other
        brokers are asked, too, else only the partitions that this broker leads are looked at.
        """
        me, leaders = self._broker.store.broker_id, {number: self._leader(topic, number) for number in numbers}
        logs = {number: self._broker.store.log(topic, number) for number in numbers if leaders[number] == me}
        offline = {number for number, log in logs.items() if log is not None and log.offline is not None}
        if everywhere and len(logs) < len(leaders):
            with suppress(LogdError):  # the topic was deleted meanwhile
                for broker, described in (await self._broker.operations.survey(topic)).items():
                    offline |= {each.partition for each in described if each.role == OFFLINE} & {
                        number for number, leader in leaders.items() if leader == broker
                    }
        return {
            (topic, number): ChangeOutcome(
                ELIGIBLE_LEADERS_NOT_AVAILABLE,
                f"broker {leaders[number]} leads {topic}-{number}, and its log is offline: /health there has the "
                "reason. A log that can be repaired, or is served again after a restart, loses nothing; to give up "
                f"what only that log has, stop broker {leaders[number]}, and ask again",
            )
            for number in offline
        }

    def _leader(self, topic: str, number: int) -> int:
        """Return the leader of a partition, or the broker of the only replica."""
        state, entry = self._broker.operations.state(topic, number), self._broker.topics.get(topic)
        if state is not None:
            return state.leader
        return NO_LEADER if entry is None else entry.partitions.get(number, (NO_LEADER,))[0]

    async def _ask(self, topic: str, numbers: tuple[int, ...], unclean: bool) -> ChangeOutcome:
        """Ask the controller for elections of a topic's partitions."""
        log, requester = self._broker.administration_log, self._rights.requester
        action = "elect leaders uncleanly" if unclean else "elect preferred leaders"

        async def ask() -> None:
            try:
                await self._broker.operations.elect(topic, "", dict.fromkeys(numbers, ANY_LEADER), unclean)
            except CoordinationError as error:
                raise CoordinationUnavailable(f"the coordination tree does not answer: {error}") from error
            log.record(requester, action, topic, partitions=sorted(numbers))

        return await outcome_of(ask(), log, requester, action, topic)

    async def _results(self, outcomes: Mapping[Place, ChangeOutcome]) -> list[Any]:
        """Return the outcomes by topics, as the response has them."""
        kind = ELECT_LEADERS.response_class.ReplicaElectionResult
        turns = self._broker.turns()
        found: dict[str, list[Any]] = {}
        for (topic, number), outcome in outcomes.items():
            if turns.over:
                await turns.rest()
            part = kind.PartitionResult(partition_id=number, error_code=outcome.code, error_message=outcome.text)
            found.setdefault(topic, []).append(part)
        return [kind(topic=topic, partition_result=parts) for topic, parts in found.items()]


def _is_led(outcome: ChangeOutcome | None) -> bool:
    """Return whether an election is refused since the partition has a leader."""
    return outcome is not None and outcome.code == ELECTION_NOT_NEEDED


def _single(topic: str, number: int, entry: TopicEntry, live: Container[int], unclean: bool) -> Refused:
    """Return the answer about a partition of a topic of one replica, which nobody else can lead."""
    broker = entry.partitions[number][0]
    if broker in live:
        return Refused(ELECTION_NOT_NEEDED, f"broker {broker} leads {topic}-{number} already")
    code = ELIGIBLE_LEADERS_NOT_AVAILABLE if unclean else PREFERRED_LEADER_NOT_AVAILABLE
    return Refused(code, f"broker {broker}, which has the only replica of {topic}-{number}, is not live")
