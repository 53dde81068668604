"""Connections to other brokers, as the brokers' own user where the cluster has users."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from attrs import frozen
from twisted.internet.defer import CancelledError, Deferred

from logd.clientcore.authentication import authenticating
from logd.deferreds.timeouts import with_timeout
from logd.errors import BrokerUnavailable, LogdError
from logd.interfaces import Clock
from logd.security.credentials import Credentials

if TYPE_CHECKING:
    from logd.net.connection import BrokerConnection

#: Seconds for each step of authentication.
ANSWER_SECONDS = 10.0


@frozen
class BrokerLinks:
    """Opens connections from one broker to the others."""

    me: int
    _clock: Clock
    #: Connects to a broker; fails with LogdError.
    _connect: Callable[[int], Deferred[BrokerConnection]]
    #: Returns the broker's own user, None if the cluster has no users.
    _credentials: Callable[[], Credentials | None]

    async def open(self, broker: int) -> BrokerConnection:
        """Return a new connection to a broker, authenticated. Raises LogdError."""
        connection = await self._connect(broker)
        credentials = self._credentials()
        if credentials is None:
            return connection
        exchange = authenticating(credentials)
        try:
            request: Any = next(exchange)
            while True:
                response = await with_timeout(self._clock, ANSWER_SECONDS, connection.request(request))
                request = exchange.send(response)
        except StopIteration:
            return connection
        except BaseException as error:
            connection.abort()
            if isinstance(error, LogdError | CancelledError) or not isinstance(error, Exception):
                raise
            raise BrokerUnavailable(f"broker {broker} does not let broker {self.me} in: {error}") from error
