"""Calls of one broker to another: over a connection on which it is known as a broker, where the cluster has users."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import define
from twisted.internet import defer
from twisted.internet.defer import Deferred

from logd.clientcore.authentication import authenticating
from logd.deferreds.timeouts import with_timeout
from logd.errors import BrokerUnavailable, LogdError, error_for_code
from logd.interfaces import Clock
from logd.security.credentials import Credentials

if TYPE_CHECKING:
    from logd.net.connection import BrokerConnection

#: Seconds for the answer to a call, and for each step of authentication.
ANSWER_SECONDS = 10.0


async def authenticate(connection: BrokerConnection, credentials: Credentials | None, clock: Clock) -> None:
    """Authenticate as a broker; None: the cluster has no users. Raises LogdError, with the connection closed."""
    if credentials is None:
        return
    exchange = authenticating(credentials)
    try:
        request: Any = next(exchange)
        while True:
            response = await with_timeout(clock, ANSWER_SECONDS, connection.request(request))
            request = exchange.send(response)
    except StopIteration:
        return
    except BaseException as error:
        connection.abort()
        if isinstance(error, LogdError):
            raise
        raise BrokerUnavailable(f"the other broker does not let this one in: {error}") from error


@define(eq=False)
class BrokerCalls:
    """Asks other brokers, each time over a connection of its own: for what is seldom asked."""

    _clock: Clock
    #: Connects to a broker; fails with LogdError.
    _connect: Callable[[int], Deferred[BrokerConnection]]
    _credentials: Callable[[], Credentials | None]

    async def ask(self, broker: int, request: Any) -> Any:
        """Return a broker's answer. Raises LogdError, also for an answer that is an error."""
        connection = await self._connect(broker)
        try:
            await authenticate(connection, self._credentials(), self._clock)
            response = await with_timeout(self._clock, ANSWER_SECONDS, connection.request(request))
        except defer.TimeoutError as error:
            raise BrokerUnavailable(f"broker {broker} does not answer") from error
        finally:
            connection.abort()
        if response.error:
            raise error_for_code(response.error, response.text)
        return response
