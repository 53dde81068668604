"""Kafka's CreateTopics, DeleteTopics and CreatePartitions, over the administration that native clients use."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from logd.broker.kafka.administration.refusals import ChangeOutcome, Refused, outcome_of
from logd.broker.kafka.administration.replicas import check_assignment, check_factor
from logd.broker.kafka.administration.setting_names import parse_settings
from logd.broker.kafka.error_codes import (
    INVALID_PARTITIONS,
    INVALID_REPLICA_ASSIGNMENT,
    INVALID_REQUEST,
    TOPIC_DELETION_DISABLED,
)
from logd.broker.requests.core import BrokerCore
from logd.broker.requests.create_delete_topic import check_administration
from logd.broker.security.rights import Rights
from logd.deferreds.gathering import for_each
from logd.errors import (
    AdministrationDisabled,
    BrokerStopping,
    ConfigurationError,
    InvalidTopic,
    TopicCreationDisabled,
    UnknownTopic,
)
from logd.plurals import counted
from logd.protocol.kafka.apis import APIS
from logd.security.access_rules import Operation
from logd.topic import TopicEntry, check_topic_name

CREATE_TOPICS, DELETE_TOPICS, CREATE_PARTITIONS = APIS[19], APIS[20], APIS[37]
#: From this version on a client knows TOPIC_DELETION_DISABLED.
_DELETION_DISABLED_FROM = 3
#: The number of partitions, or the replication factor, that stands for the broker's own.
_DEFAULT = -1
#: Topics of one request that are changed at a time, so that requests of others come in between.
CHANGED_AT_ONCE = 50


class KafkaTopicAdministration:
    """These requests of one connection. Each change and each refusal stands in the log of administration."""

    def __init__(self, broker: BrokerCore, rights: Rights) -> None:
        self._broker = broker
        self._rights = rights

    async def create_topics(self, request: Any) -> Any:
        """Create topics, or check only whether they could be created."""
        repeated = _repeated(each.name for each in request.topics)

        async def create(topic: Any) -> None:
            if topic.name in repeated:
                raise Refused(INVALID_REQUEST, f"topic {topic.name!r} is named twice in one request")
            await self._create(topic, bool(request.validate_only))

        outcomes = await self._each(request.topics, create, "create topic", lambda topic: str(topic.name))
        kind = CREATE_TOPICS.response_class.CreatableTopicResult
        results = [
            kind(name=topic.name, error_code=outcome.code, error_message=outcome.text)
            for topic, outcome in zip(request.topics, outcomes, strict=True)
        ]
        return CREATE_TOPICS.response(throttle_time_ms=0, topics=results)

    async def delete_topics(self, request: Any) -> Any:
        """Delete topics and their messages."""
        names = list(dict.fromkeys(request.topic_names))

        async def delete(name: str) -> None:
            self._rights.check_topic(Operation.DELETE, name)
            try:
                check_administration(self._broker, "delete a topic")
            except AdministrationDisabled as error:
                known = request.version >= _DELETION_DISABLED_FROM
                raise Refused(TOPIC_DELETION_DISABLED if known else INVALID_REQUEST, str(error)) from error
            await self._broker.administration.delete(name)
            self._record("delete topic", name)

        outcomes = await self._each(names, delete, "delete topic", str)
        kind = DELETE_TOPICS.response_class.DeletableTopicResult
        results = [kind(name=name, error_code=outcome.code) for name, outcome in zip(names, outcomes, strict=True)]
        return DELETE_TOPICS.response(throttle_time_ms=0, responses=results)

    async def create_partitions(self, request: Any) -> Any:
        """Give topics more partitions, or check only whether they could have them."""
        repeated = _repeated(each.name for each in request.topics)

        async def add(topic: Any) -> None:
            if topic.name in repeated:
                raise Refused(INVALID_REQUEST, f"topic {topic.name!r} is named twice in one request")
            await self._add_partitions(topic, bool(request.validate_only))

        outcomes = await self._each(request.topics, add, "change topic", lambda topic: str(topic.name))
        kind = CREATE_PARTITIONS.response_class.CreatePartitionsTopicResult
        results = [
            kind(name=topic.name, error_code=outcome.code, error_message=outcome.text)
            for topic, outcome in zip(request.topics, outcomes, strict=True)
        ]
        return CREATE_PARTITIONS.response(throttle_time_ms=0, results=results)

    async def _each(
        self, items: Sequence[Any], work: Callable[[Any], Any], action: str, name_of: Callable[[Any], str]
    ) -> list[ChangeOutcome]:
        """Do the work for each item, some at a time; return the outcomes in order."""
        outcomes = [ChangeOutcome()] * len(items)
        log, requester = self._broker.administration_log, self._rights.requester

        async def one(numbered: tuple[int, Any]) -> None:
            number, item = numbered
            outcomes[number] = await outcome_of(work(item), log, requester, action, name_of(item))

        await for_each(enumerate(items), one, min(CHANGED_AT_ONCE, len(items)), self._broker.turns())
        return outcomes

    async def _create(self, topic: Any, validate_only: bool) -> None:
        broker, name = self._broker, topic.name
        self._rights.check_create(name)
        if broker.stopping:
            raise BrokerStopping("the broker is stopping")
        if not broker.settings.creates_on_request:
            raise TopicCreationDisabled(
                f"topic {name!r} is not created: topics.create = false on this broker; explicit would allow it"
            )
        check_topic_name(name)
        settings = parse_settings({each.name: each.value for each in topic.configs})
        try:
            broker.settings.log_settings(settings.native)
        except ConfigurationError as error:
            raise ConfigurationError(f"topic {name!r}: {error}") from error
        brokers = None
        partitions = topic.num_partitions
        if topic.assignments:
            if topic.num_partitions != _DEFAULT or topic.replication_factor != _DEFAULT:
                text = f"topic {name!r} has both a number of partitions or replicas and an assignment of them"
                raise Refused(INVALID_REQUEST, text)
            assigned = {each.partition_index: tuple(each.broker_ids) for each in topic.assignments}
            partitions = len(topic.assignments)
            if sorted(assigned) != list(range(partitions)):
                text = f"topic {name!r}: partitions are numbered from 0 on, each once, and not {sorted(assigned)}"
                raise Refused(INVALID_REPLICA_ASSIGNMENT, text)
            check_assignment(name, assigned.values(), broker.brokers())
            brokers = assigned
        elif partitions == _DEFAULT:
            partitions = broker.settings.topics_partitions
        replicas = topic.replication_factor
        if replicas == _DEFAULT:
            replicas = broker.settings.replication.default_replicas
        if brokers is None:
            check_factor(name, replicas, broker.brokers())
        administration = broker.administration
        try:
            administration.check_create(name, partitions, settings.native)
            if not validate_only:
                await broker.create_topic(
                    self._rights.requester,
                    name,
                    partitions,
                    settings.native,
                    kafka_settings=settings.kept,
                    brokers=brokers,
                    replicas=replicas,
                )
            else:
                broker.quotas.check_create(self._rights.requester, name, partitions)
        except InvalidTopic as error:  # name and settings are checked above
            raise Refused(INVALID_PARTITIONS, str(error)) from error
        if not validate_only:
            self._record("create topic", name, partitions=partitions, settings={**settings.native, **settings.kept})

    async def _add_partitions(self, topic: Any, validate_only: bool) -> None:
        broker, name, count = self._broker, topic.name, topic.count
        self._rights.check_topic(Operation.ALTER, name)
        check_administration(broker, "change a topic")

        def change(entry: TopicEntry) -> TopicEntry:
            before = len(entry.partitions)
            if count <= before:
                text = f"topic {name!r} has {counted(before, 'partition')}; {count} are no more than that"
                raise Refused(INVALID_PARTITIONS, text)
            brokers = None
            if topic.assignments is not None:
                brokers = [tuple(each.broker_ids) for each in topic.assignments]
                if len(brokers) != count - before:
                    text = (
                        f"topic {name!r} gets {counted(count - before, 'partition')}, and {len(brokers)} are assigned"
                    )
                    raise Refused(INVALID_REPLICA_ASSIGNMENT, text)
                check_assignment(name, brokers, broker.brokers(), max(map(len, entry.partitions.values()), default=1))
            try:
                return broker.administration.with_partitions(name, entry, count, brokers)
            except InvalidTopic as error:
                raise Refused(INVALID_PARTITIONS, str(error)) from error

        broker.quotas.check_grow(self._rights.requester, name, count)
        if validate_only:
            entry = broker.topics.get(name)
            if entry is None:
                raise UnknownTopic(f"there is no topic {name!r}")
            change(entry)
            return
        await broker.administration.change(name, change)
        self._record("change topic", name, partitions=count)

    def _record(self, action: str, topic: str, **details: Any) -> None:
        self._broker.administration_log.record(self._rights.requester, action, topic, **details)


def _repeated(names: Iterable[str]) -> set[str]:
    return {name for name, count in Counter(names).items() if count > 1}
