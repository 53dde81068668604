"""Requests that create and delete topics: each is logged with the peer that asked for it."""

from __future__ import annotations

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.broker.core import BrokerCore
from logd.errors import (
    AdministrationDisabled,
    BrokerStopping,
    LogdError,
    TopicCreationDisabled,
    UnknownError,
    WireError,
)
from logd.net.server import Connection
from logd.protocol.administration import CreateTopic, CreateTopicResponse, DeleteTopic, DeleteTopicResponse
from logd.protocol.responses import encode_response
from logd.topic import TopicEntry

_log = Logger()


def check_administration(broker: BrokerCore, what: str) -> None:
    """Raise AdministrationDisabled where the settings keep clients from doing ``what``, such as ``delete a topic``."""
    if not broker.settings.administration_requests:
        raise AdministrationDisabled(f"nobody can {what} by a request: administration.requests = false here")


class AdministrationRequests:
    """The administration that one connection asks for."""

    def __init__(self, broker: BrokerCore, connection: Connection) -> None:
        self._broker = broker
        self._connection = connection

    def create_topic(self, request: CreateTopic) -> None:
        """Create a topic by name."""
        if self._broker.stopping:
            self._answer_create(request, CreateTopicResponse(BrokerStopping.code, text="the broker is stopping"))
            return
        if not self._broker.settings.creates_on_request:
            refusal = TopicCreationDisabled(
                f"topic {request.topic!r} is not created: topics.create = false here; with explicit it would be"
            )
            self._refused("create", request.topic, Failure(refusal))
            self._answer_create(request, CreateTopicResponse(refusal.code, text=str(refusal)))
            return

        def created(entry: TopicEntry) -> None:
            _log.info(
                "{peer} created topic {topic} with {partitions} partitions",
                peer=self._connection.peer,
                topic=request.topic,
                partitions=len(entry.partitions),
            )
            self._answer_create(request, CreateTopicResponse(0, entry.uuid))

        def failed(failure: Failure) -> None:
            self._refused("create", request.topic, failure)
            self._answer_create(request, CreateTopicResponse(_code(failure), text=failure.getErrorMessage()))

        creating = self._broker.topics.create(request.topic, request.partitions, dict(request.settings))
        creating.addCallbacks(created, failed)

    def delete_topic(self, request: DeleteTopic) -> None:
        """Delete a topic and its messages."""

        def deleted(_: None) -> None:
            _log.info("{peer} deleted topic {topic}", peer=self._connection.peer, topic=request.topic)
            self._answer_delete(request, DeleteTopicResponse(0))

        def failed(failure: Failure) -> None:
            self._refused("delete", request.topic, failure)
            self._answer_delete(request, DeleteTopicResponse(_code(failure), failure.getErrorMessage()))

        try:
            check_administration(self._broker, "delete a topic")
        except AdministrationDisabled:
            failed(Failure())
            return
        deleting: Deferred[None] = self._broker.topics.delete(request.topic)
        deleting.addCallbacks(deleted, failed)

    def _refused(self, what: str, topic: str, failure: Failure) -> None:
        # The name is a peer's own words: in the log they stand in quotes, with what a terminal would obey written out.
        _log.warn(
            "{peer} asked to {what} topic {topic!r}: {reason}",
            peer=self._connection.peer,
            what=what,
            topic=topic,
            reason=failure.getErrorMessage(),
        )

    def _answer_create(self, request: CreateTopic, response: CreateTopicResponse) -> None:
        self._connection.answer(request, [*encode_response(response, request.correlation_id)])

    def _answer_delete(self, request: DeleteTopic, response: DeleteTopicResponse) -> None:
        self._connection.answer(request, [*encode_response(response, request.correlation_id)])


def _code(failure: Failure) -> int:
    error = failure.value
    if isinstance(error, WireError):
        return error.code
    if not isinstance(error, LogdError):
        _log.failure("administration failed", failure)
    return UnknownError.code
