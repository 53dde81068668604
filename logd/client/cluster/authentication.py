"""Authenticates each connection of a client before it is used."""

from __future__ import annotations

from typing import Any

from twisted.internet import defer
from twisted.internet.defer import Deferred, succeed

from logd.client.cluster.link import ClientConnection, Connect
from logd.clientcore.authentication import authenticating
from logd.deferreds.timeouts import with_timeout
from logd.errors import BrokerUnavailable
from logd.interfaces import Clock
from logd.security.credentials import Credentials, FindCredentials


def authenticating_connect(connect: Connect, find: FindCredentials, clock: Clock, timeout: float) -> Connect:
    """Return the function that connects by ``connect`` and then authenticates as the user whom ``find`` names.

    It fails with AuthenticationFailed or another WireError, with BrokerUnavailable, or with the ConfigurationError of
    a password file that cannot be read, as well; the connection is closed then. Each answer may take ``timeout``
    seconds.
    """

    def authenticate(connection: ClientConnection) -> Deferred[ClientConnection]:
        try:
            credentials = find()
        except BaseException:
            connection.abort()
            return defer.fail()
        if credentials is None:
            return succeed(connection)
        return Deferred.fromCoroutine(_authenticate(connection, credentials, clock, timeout))

    return lambda address: connect(address).addCallback(authenticate)


async def _authenticate(
    connection: ClientConnection, credentials: Credentials, clock: Clock, timeout: float
) -> ClientConnection:
    exchange = authenticating(credentials)
    try:
        request: Any = next(exchange)
        while True:
            response = await with_timeout(clock, timeout, connection.request(request))
            request = exchange.send(response)
    except StopIteration:
        return connection
    except BrokerUnavailable as error:
        raise BrokerUnavailable(
            f"{error}, while user {credentials.user!r} authenticated; a broker of an earlier release knows no users"
        ) from None
    except defer.TimeoutError:
        connection.abort()
        raise BrokerUnavailable(f"no answer to Authenticate within {timeout:g} seconds") from None
    except BaseException:
        connection.abort()
        raise
