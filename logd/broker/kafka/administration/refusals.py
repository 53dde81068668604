"""Refusals of administration: Kafka's codes with texts, and their records in the log of administration."""

from __future__ import annotations

from collections.abc import Awaitable

from attrs import field, frozen
from attrs.converters import optional
from twisted.logger import Logger

from logd.broker.kafka.error_codes import (
    INVALID_CONFIG,
    NOT_CONTROLLER,
    POLICY_VIOLATION,
    REQUEST_TIMED_OUT,
    UNKNOWN_SERVER_ERROR,
    kafka_code,
)
from logd.broker.security.administration_log import AdministrationLog
from logd.broker.security.requester import Requester
from logd.errors import (
    AdministrationDisabled,
    BrokerStopping,
    ConfigurationError,
    CoordinationUnavailable,
    LogdError,
    TopicCreationDisabled,
    WireError,
)
from logd.protocol.requests.fields import shorten_text

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
    """The outcome of one part of a request.

    Its text may have names from the request. It is cut, as a response has no room for any length, and may have
    thousands of texts about one name.
    """

    code: int = 0
    text: str | None = field(default=None, converter=optional(shorten_text))


def code_of(error: Exception) -> int:
    """Return the code that answers an error."""
    if isinstance(error, Refused):
        return error.code
    code = _CODES.get(type(error))
    if code is not None:
        return code
    return kafka_code(error) if isinstance(error, WireError) else UNKNOWN_SERVER_ERROR


async def outcome_of(
    work: Awaitable[object], log: AdministrationLog, requester: Requester, action: str, name: str
) -> ChangeOutcome:
    """Await a change; record its refusal or failure, and return it. A change that is made records itself."""
    try:
        await work
    except Exception as error:
        if not isinstance(error, Refused | LogdError | OSError):
            _log.failure("administration failed")
        if isinstance(error, Refused):
            log.refused(requester, action, name, str(error))
        else:
            log.record(requester, action, name, error=error)
        return ChangeOutcome(code_of(error), str(error))
    return ChangeOutcome()
