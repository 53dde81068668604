"""Handlers of the requests that create, alter and delete topics. Each stands in the log of administration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.broker.requests.core import BrokerCore
from logd.broker.security.rights import Rights
from logd.config import LogSettings
from logd.coord.partition_state import MOST_REPLICAS
from logd.errors import (
    AdministrationDisabled,
    BrokerStopping,
    ConfigurationError,
    InvalidTopic,
    LogdError,
    TopicCreationDisabled,
    UnknownError,
    WireError,
)
from logd.protocol.requests.alter_topic import AlterTopic, AlterTopicResponse
from logd.protocol.requests.create_delete_topic import (
    CreateTopic,
    CreateTopicResponse,
    CreateTopicResponseV1,
    CreateTopicResponseV2,
    CreateTopicV1,
    CreateTopicV2,
    DeleteTopic,
    DeleteTopicResponse,
)
from logd.security.access_rules import Operation
from logd.topic import TopicEntry

_log = Logger()


def check_administration(broker: BrokerCore, what: str) -> None:
    """Raise AdministrationDisabled if the settings forbid clients to do ``what``, such as ``delete a topic``."""
    if not broker.settings.administration_requests:
        raise AdministrationDisabled(f"clients cannot {what} on this broker: administration.requests = false")


class AdministrationRequests:
    """The administration requests of one connection."""

    def __init__(self, broker: BrokerCore, rights: Rights) -> None:
        self._broker = broker
        self._rights = rights

    def create_topic(self, request: CreateTopic) -> CreateTopicResponse | Deferred[CreateTopicResponse]:
        """Create a topic by name."""
        return self._create(request.topic, request.partitions, request.settings)

    def _create(
        self, topic: str, partitions: int, settings: Mapping[str, int | str], replicas: int = 0
    ) -> CreateTopicResponse | Deferred[CreateTopicResponse]:
        if self._broker.stopping:
            return CreateTopicResponse(BrokerStopping.code, text="the broker is stopping")
        try:
            self._rights.check_create(topic)
            if not self._broker.settings.creates_on_request:
                raise TopicCreationDisabled(
                    f"topic {topic!r} is not created: topics.create = false on this broker; explicit would allow it"
                )
        except WireError as refusal:
            self._record("create topic", topic, refusal)
            return CreateTopicResponse(refusal.code, text=str(refusal))

        def created(entry: TopicEntry) -> CreateTopicResponse:
            self._record("create topic", topic, partitions=len(entry.partitions), settings=dict(entry.settings))
            return CreateTopicResponse(0, entry.uuid)

        def failed(failure: Failure) -> CreateTopicResponse:
            self._record("create topic", topic, failure.value)
            return CreateTopicResponse(_code(failure), text=failure.getErrorMessage())

        creating: Deferred[Any] = self._broker.create_topic(
            self._rights.requester, topic, partitions, dict(settings), replicas=replicas
        )
        return creating.addCallbacks(created, failed)

    def create_topic_v1(self, request: CreateTopicV1) -> CreateTopicResponseV1 | Deferred[CreateTopicResponseV1]:
        """Create a topic by name, with settings as text."""
        answer = self._create_with_texts(request.topic, request.partitions, 0, request.settings)
        if isinstance(answer, Deferred):
            return answer.addCallback(lambda response: CreateTopicResponseV1(*response))
        return CreateTopicResponseV1(*answer)

    def create_topic_v2(self, request: CreateTopicV2) -> CreateTopicResponseV2 | Deferred[CreateTopicResponseV2]:
        """Create a topic by name, with a number of replicas and settings as text."""
        answer = self._create_with_texts(request.topic, request.partitions, request.replicas, request.settings)
        if isinstance(answer, Deferred):
            return answer.addCallback(lambda response: CreateTopicResponseV2(*response))
        return CreateTopicResponseV2(*answer)

    def _create_with_texts(self, topic: str, partitions: int, replicas: int, texts: Mapping[str, str]) -> Any:
        try:
            self._rights.check_create(topic)
            settings = LogSettings.parse(texts)
            if not 0 <= replicas <= MOST_REPLICAS:
                raise InvalidTopic(f"topic {topic!r} cannot have {replicas} replicas; 0 to {MOST_REPLICAS} are allowed")
        except (ConfigurationError, WireError) as error:
            refusal = error if isinstance(error, WireError) else InvalidTopic(f"topic {topic!r}: {error}")
            self._record("create topic", topic, refusal)
            return CreateTopicResponse(refusal.code, text=str(refusal))
        return self._create(topic, partitions, settings, replicas)

    def alter_topic(self, request: AlterTopic) -> AlterTopicResponse | Deferred[AlterTopicResponse]:
        """Change a topic's settings and its number of partitions; with neither it is a question, and not logged."""
        changes = bool(request.partitions or request.settings)

        def altered(entry: TopicEntry) -> AlterTopicResponse:
            if changes:
                settings = dict(request.settings)
                self._record("change topic", request.topic, partitions=len(entry.partitions), settings=settings)
            # Those of Kafka's clients too: with cleanup.policy=compact the topic's retention says nothing.
            texts = {name: str(value) for name, value in {**entry.kafka_settings, **entry.settings}.items()}
            return AlterTopicResponse(0, entry.uuid, len(entry.partitions), texts)

        def failed(failure: Failure) -> AlterTopicResponse:
            if changes:
                self._record("change topic", request.topic, failure.value)
            return AlterTopicResponse(_code(failure), text=failure.getErrorMessage())

        try:
            self._rights.check_topic(Operation.ALTER if changes else Operation.DESCRIBE, request.topic)
            check_administration(self._broker, "change a topic")
            if request.partitions:
                self._broker.quotas.check_grow(self._rights.requester, request.topic, request.partitions)
        except WireError:
            return failed(Failure())
        altering: Deferred[Any] = self._broker.administration.alter(
            request.topic, request.uuid, request.partitions, request.settings
        )
        return altering.addCallbacks(altered, failed)

    def delete_topic(self, request: DeleteTopic) -> DeleteTopicResponse | Deferred[DeleteTopicResponse]:
        """Delete a topic and its messages."""

        def deleted(_: None) -> DeleteTopicResponse:
            self._record("delete topic", request.topic)
            return DeleteTopicResponse(0)

        def failed(failure: Failure) -> DeleteTopicResponse:
            self._record("delete topic", request.topic, failure.value)
            return DeleteTopicResponse(_code(failure), failure.getErrorMessage())

        try:
            self._rights.check_topic(Operation.DELETE, request.topic)
            check_administration(self._broker, "delete a topic")
        except WireError:
            return failed(Failure())
        deleting: Deferred[Any] = self._broker.administration.delete(request.topic)
        return deleting.addCallbacks(deleted, failed)

    def _record(self, action: str, topic: str, error: BaseException | None = None, **details: Any) -> None:
        self._broker.administration_log.record(self._rights.requester, action, topic, error=error, **details)


def _code(failure: Failure) -> int:
    error = failure.value
    if isinstance(error, WireError):
        return error.code
    if not isinstance(error, LogdError):
        _log.failure("administration failed", failure)
    return UnknownError.code
