"""Handlers of the requests that create and delete topics. Each request is logged with its peer."""

from __future__ import annotations

from typing import Any

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.broker.requests.core import BrokerCore
from logd.errors import (
    AdministrationDisabled,
    BrokerStopping,
    LogdError,
    TopicCreationDisabled,
    UnknownError,
    WireError,
)
from logd.protocol.requests.create_delete_topic import (
    CreateTopic,
    CreateTopicResponse,
    DeleteTopic,
    DeleteTopicResponse,
)
from logd.topic import TopicEntry

_log = Logger()


def check_administration(broker: BrokerCore, what: str) -> None:
    """Raise AdministrationDisabled if the settings forbid clients to do ``what``, such as ``delete a topic``."""
    if not broker.settings.administration_requests:
        raise AdministrationDisabled(f"clients cannot {what} on this broker: administration.requests = false")


class AdministrationRequests:
    """The administration requests of one connection."""

    def __init__(self, broker: BrokerCore, peer: str) -> None:
        """``peer`` names the client in the log."""
        self._broker = broker
        self._peer = peer

    def create_topic(self, request: CreateTopic) -> CreateTopicResponse | Deferred[CreateTopicResponse]:
        """Create a topic by name."""
        if self._broker.stopping:
            return CreateTopicResponse(BrokerStopping.code, text="the broker is stopping")
        if not self._broker.settings.creates_on_request:
            refusal = TopicCreationDisabled(
                f"topic {request.topic!r} is not created: topics.create = false on this broker; explicit would allow it"
            )
            self._refused("create", request.topic, Failure(refusal))
            return CreateTopicResponse(refusal.code, text=str(refusal))

        def created(entry: TopicEntry) -> CreateTopicResponse:
            _log.info(
                "{peer} created topic {topic} with {partitions} partitions",
                peer=self._peer,
                topic=request.topic,
                partitions=len(entry.partitions),
            )
            return CreateTopicResponse(0, entry.uuid)

        def failed(failure: Failure) -> CreateTopicResponse:
            self._refused("create", request.topic, failure)
            return CreateTopicResponse(_code(failure), text=failure.getErrorMessage())

        settings = dict(request.settings)
        creating: Deferred[Any] = self._broker.administration.create(request.topic, request.partitions, settings)
        return creating.addCallbacks(created, failed)

    def delete_topic(self, request: DeleteTopic) -> DeleteTopicResponse | Deferred[DeleteTopicResponse]:
        """Delete a topic and its messages."""

        def deleted(_: None) -> DeleteTopicResponse:
            _log.info("{peer} deleted topic {topic}", peer=self._peer, topic=request.topic)
            return DeleteTopicResponse(0)

        def failed(failure: Failure) -> DeleteTopicResponse:
            self._refused("delete", request.topic, failure)
            return DeleteTopicResponse(_code(failure), failure.getErrorMessage())

        try:
            check_administration(self._broker, "delete a topic")
        except AdministrationDisabled:
            return failed(Failure())
        deleting: Deferred[Any] = self._broker.administration.delete(request.topic)
        return deleting.addCallbacks(deleted, failed)

    def _refused(self, what: str, topic: str, failure: Failure) -> None:
        # The name comes from the peer: it is logged in quotes, with control characters escaped.
        _log.warn(
            "{peer} asked to {what} topic {topic!r}: {reason}",
            peer=self._peer,
            what=what,
            topic=topic,
            reason=failure.getErrorMessage(),
        )


def _code(failure: Failure) -> int:
    error = failure.value
    if isinstance(error, WireError):
        return error.code
    if not isinstance(error, LogdError):
        _log.failure("administration failed", failure)
    return UnknownError.code
