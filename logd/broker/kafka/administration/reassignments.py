"""Kafka's AlterPartitionReassignments and ListPartitionReassignments, over what operators ask the controller for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from logd.broker.kafka.administration.refusals import ChangeOutcome, Refused, code_of, outcome_of
from logd.broker.kafka.administration.replicas import check_assignment
from logd.broker.kafka.error_codes import (
    INVALID_REPLICATION_FACTOR,
    INVALID_REQUEST,
    NO_REASSIGNMENT_IN_PROGRESS,
    UNKNOWN_TOPIC_OR_PARTITION,
)
from logd.broker.requests.core import BrokerCore
from logd.broker.requests.create_delete_topic import check_administration
from logd.broker.security.rights import Rights
from logd.checkedjson import excerpt
from logd.coord.errors import CoordinationError
from logd.deferreds.fair_turns import FairTurns
from logd.errors import CoordinationUnavailable, LogdError
from logd.plurals import counted
from logd.protocol.kafka.apis import APIS
from logd.security.access_rules import Operation
from logd.topic import TopicEntry

ALTER_PARTITION_REASSIGNMENTS, LIST_PARTITION_REASSIGNMENTS = APIS[45], APIS[46]


class KafkaReassignments:
    """These requests of one connection. Each change and each refusal stands in the log of administration."""

    def __init__(self, broker: BrokerCore, rights: Rights) -> None:
        self._broker = broker
        self._rights = rights

    async def alter_partition_reassignments(self, request: Any) -> Any:
        """Ask for other replicas of partitions, or cancel what was asked for; answers before the controller begins."""
        kind = ALTER_PARTITION_REASSIGNMENTS.response_class
        part_kind = kind.ReassignableTopicResponse.ReassignablePartitionResponse
        refusal, turns = self._refusal(), self._broker.turns()
        responses = []
        for topic in request.topics:
            if refusal is None:
                outcomes = await self._alter(topic, bool(request.allow_replication_factor_change), turns)
            else:
                outcomes = [ChangeOutcome(code_of(refusal), str(refusal))] * len(topic.partitions)
            parts = []
            for part, outcome in zip(topic.partitions, outcomes, strict=True):
                if turns.over:
                    await turns.rest()
                fields = {"error_code": outcome.code, "error_message": outcome.text}
                parts.append(part_kind(partition_index=part.partition_index, **fields))
            responses.append(kind.ReassignableTopicResponse(name=topic.name, partitions=parts))
        return ALTER_PARTITION_REASSIGNMENTS.response(
            throttle_time_ms=0,
            allow_replication_factor_change=bool(request.allow_replication_factor_change),
            error_code=0 if refusal is None else code_of(refusal),
            error_message=None if refusal is None else str(refusal),
            responses=responses,
        )

    def _refusal(self) -> LogdError | None:
        try:
            self._rights.check_cluster(Operation.ALTER)
            check_administration(self._broker, "reassign replicas")
        except LogdError as error:
            self._broker.administration_log.record(self._rights.requester, "reassign replicas", error=error)
            return error
        return None

    async def _alter(self, topic: Any, may_change_factor: bool, turns: FairTurns) -> list[ChangeOutcome]:
        """Ask for other replicas of the partitions of a topic that can have them; return all their outcomes."""
        entry = self._broker.topics.get(topic.name)
        seen: set[int] = set()
        outcomes, changes = [ChangeOutcome()] * len(topic.partitions), {}
        for place, part in enumerate(topic.partitions):
            if turns.over:
                await turns.rest()
            number, replicas = part.partition_index, part.replicas
            try:
                if number in seen:
                    raise Refused(INVALID_REQUEST, f"partition {number} of {excerpt(topic.name)} is named twice")
                seen.add(number)
                self._check(topic.name, entry, number, replicas, may_change_factor)
                changes[number] = None if replicas is None else tuple(replicas)
            except Refused as error:
                outcomes[place] = ChangeOutcome(error.code, str(error))
        if not changes:
            return outcomes
        assert entry is not None
        idle: set[int] = set()
        log, requester = self._broker.administration_log, self._rights.requester

        async def change() -> None:
            try:
                idle.update(await self._broker.operations.change_replicas(topic.name, entry, changes))
            except CoordinationError as error:
                raise CoordinationUnavailable(f"the coordination tree does not answer: {error}") from error
            done = {str(number): replicas and list(replicas) for number, replicas in changes.items()}
            log.record(requester, "reassign replicas", topic.name, replicas=done)

        common = await outcome_of(change(), log, requester, "reassign replicas", topic.name)
        for place, part in enumerate(topic.partitions):
            if outcomes[place].code:
                continue
            if part.partition_index in idle:
                text = f"partition {part.partition_index} of {topic.name!r} is not being reassigned"
                outcomes[place] = ChangeOutcome(NO_REASSIGNMENT_IN_PROGRESS, text)
            else:
                outcomes[place] = common
        return outcomes

    def _check(
        self, topic: str, entry: TopicEntry | None, number: int, replicas: Sequence[int] | None, may_change_factor: bool
    ) -> None:
        """Raise Refused unless a partition can have these replicas. Those that it has already need not be live."""
        if entry is None or number not in entry.partitions:
            raise Refused(UNKNOWN_TOPIC_OR_PARTITION, f"there is no partition {number} of a topic {excerpt(topic)}")
        if replicas is None:
            return
        now = entry.partitions[number]
        check_assignment(topic, [tuple(replicas)], {*self._broker.brokers(), *now})
        if len(replicas) != len(now) and not may_change_factor:
            raise Refused(
                INVALID_REPLICATION_FACTOR,
                f"partition {number} of {topic!r} has {counted(len(now), 'replica')}, and the request allows no other "
                f"number than that: {len(replicas)}",
            )

    async def list_partition_reassignments(self, request: Any) -> Any:
        """Return the partitions whose new replicas are not all in sync yet, or that have too many."""
        kind = LIST_PARTITION_REASSIGNMENTS.response_class.OngoingTopicReassignment
        outcome, topics = ChangeOutcome(), []
        wanted = None if request.topics is None else {each.name: set(each.partition_indexes) for each in request.topics}
        try:
            self._rights.check_cluster(Operation.DESCRIBE)
            for name, found in (await self._broker.operations.pending()).items():
                parts = []
                for number, each in found.items():
                    if wanted is not None and number not in wanted.get(name, ()):
                        continue
                    # As Kafka has it: the new replicas and those to be given up are replicas meanwhile.
                    every = list(dict.fromkeys((*each.wanted, *each.replicas)))
                    parts.append(
                        kind.OngoingPartitionReassignment(
                            partition_index=number,
                            replicas=every,
                            adding_replicas=[broker for broker in each.wanted if broker not in each.before],
                            removing_replicas=[broker for broker in every if broker not in each.wanted],
                        )
                    )
                if parts:
                    topics.append(kind(name=name, partitions=parts))
        except CoordinationError as error:
            text = f"the coordination tree does not answer: {error}"
            outcome = ChangeOutcome(code_of(CoordinationUnavailable(text)), text)
        except LogdError as error:
            outcome = ChangeOutcome(code_of(error), str(error))
        return LIST_PARTITION_REASSIGNMENTS.response(
            throttle_time_ms=0,
            error_code=outcome.code,
            error_message=outcome.text,
            topics=[] if outcome.code else topics,
        )
