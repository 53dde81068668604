"""Refusals of administration: Kafka's codes with texts, and the log line that names the client."""

from __future__ import annotations

from collections.abc import Awaitable

from attrs import define, field, frozen
from twisted.logger import Logger

from logd.broker.kafka.error_codes import (
    INVALID_CONFIG,
    NOT_CONTROLLER,
    POLICY_VIOLATION,
    REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR,
    kafka_code,
)
from logd.errors import (
    AdministrationDisabled,
    BrokerStopping,
    ConfigurationError,
    CoordinationUnavailable,
    LogdError,
    TopicCreationDisabled,
    WireError,
)
from logd.plurals import counted

_log = Logger()

#: Errors that have another code in administration than elsewhere: a client then asks another broker, or again.
_CODES: dict[type[BaseException], int] = {
    AdministrationDisabled: POLICY_VIOLATION,
    TopicCreationDisabled: POLICY_VIOLATION,
    BrokerStopping: NOT_CONTROLLER,
    CoordinationUnavailable: REQUEST_TIMED_OUT,
    ConfigurationError: INVALID_CONFIG,
}


class Refused(Exception):
    """A part of a request is refused; ``code`` is Kafka's."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


@frozen
class ChangeOutcome:
    """The outcome of one part of a request."""

    code: int = 0
    text: str | None = None


def code_of(error: Exception) -> int:
    """Return the code that answers an error."""
    if isinstance(error, Refused):
        return error.code
    code = _CODES.get(type(error))
    if code is not None:
        return code
    return kafka_code(error) if isinstance(error, WireError) else UNKNOWN_SERVER_ERROR


#: Refusals of one request that are logged one by one: a request can have many thousands.
MOST_LOGGED = 20


@define
class RefusalLog:
    """Logs the refusals of one request, the first ones each, and the number of the others."""

    #: Names the client.
    peer: str
    _refused: int = field(default=0, init=False)

    async def outcome_of(self, work: Awaitable[object], what: str) -> ChangeOutcome:
        """Await a change; log and return its refusal or failure. ``what`` is logged: names in it are to be quoted."""
        try:
            await work
        except Exception as error:
            if not isinstance(error, Refused | LogdError | OSError):
                _log.failure("administration failed")
            self.refused(what, str(error))
            return ChangeOutcome(code_of(error), str(error))
        return ChangeOutcome()

    def refused(self, what: str, reason: str) -> None:
        """Log a refusal, unless there were many."""
        self._refused += 1
        if self._refused <= MOST_LOGGED:
            _log.warn("{peer} asked to {what}: {reason}", peer=self.peer, what=what, reason=reason)

    def close(self) -> None:
        """Log how many refusals were not logged."""
        more = self._refused - MOST_LOGGED
        if more > 0:
            _log.warn(
                "{peer} asked for {count} in the same request that were refused", peer=self.peer,
                count=counted(more, "more change"),
            )  # fmt: skip
