"""Requests to a schema registry, logd's or Confluent's: JSON over HTTP, with the registry's refusals as errors."""

from __future__ import annotations

import json
from io import BytesIO
from typing import Any
from urllib.parse import unquote

from twisted.internet.defer import CancelledError, Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import Agent, FileBodyProducer, HTTPConnectionPool, ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent, IResponse

from logd.avro.answers import CONTENT_TYPE, MOST_ANSWER_BYTES, RegistryUnavailable, no_answer, read_answer
from logd.net.credentials import REGISTRY_PREFIX, basic, credentials_of_environment

#: Seconds that an answer of the registry may take.
TIMEOUT = 30.0


class RegistryRequests:
    """Asks the registry at ``url``, such as ``http://127.0.0.1:8081``. For the reactor's thread alone.

    A URL may have a user and a password, ``https://USER:PASSWORD@HOST``, which ``url`` does not show again.
    """

    def __init__(self, url: str, *, reactor: Any, timeout: float = TIMEOUT, agent: IAgent | None = None) -> None:
        """``agent`` sends the requests, by default one that keeps connections open until ``close``."""
        self.url, self._authorization = _address(url)
        self._reactor = reactor
        self._timeout = timeout
        self._pool = HTTPConnectionPool(reactor)
        self._agent: Any = agent if agent is not None else Agent(reactor, connectTimeout=timeout, pool=self._pool)
        #: Requests sent.
        self.sent = 0

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Send a request, and return the JSON of its answer.

        Raises RegistryUnavailable if there is no answer within ``timeout`` seconds, or one that is no registry's, and
        RegistryRefusal if the registry refuses.
        """
        self.sent += 1
        headers = Headers({"accept": [CONTENT_TYPE], "content-type": [CONTENT_TYPE]})
        if self._authorization is not None:
            headers.addRawHeader("authorization", self._authorization)
        producer = None if body is None else FileBodyProducer(BytesIO(json.dumps(body).encode()))
        asking: Deferred[tuple[int, bytes]] = Deferred.fromCoroutine(self._send(method, path, headers, producer))
        asking.addTimeout(self._timeout, self._reactor)
        try:
            status, data = await asking
        except ValueError as error:
            raise RegistryUnavailable(f"{self.url}{path} answers what no registry does: {error}") from None
        except CancelledError:
            raise
        except Exception as error:  # of a connection, of TLS, of HTTP, or the time limit
            raise no_answer(self.url, error) from error
        return read_answer(f"{self.url}{path}", status, data)

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.closeCachedConnections()

    async def _send(
        self, method: str, path: str, headers: Headers, producer: FileBodyProducer | None
    ) -> tuple[int, bytes]:
        response: IResponse = await self._agent.request(
            method.encode(), f"{self.url}{path}".encode(), headers, producer
        )
        collecting = _Answer()
        response.deliverBody(collecting)
        return response.code, await collecting.ended


def _address(url: str) -> tuple[str, str | None]:
    """Return the URL without user and password, and what to send in the header Authorization.

    The user is the one in the URL, or that of the environment (LOGD_REGISTRY_USER). Raises ConfigurationError.
    """
    scheme, mark, rest = url.strip().rstrip("/").partition("://")
    place, slash, path = rest.partition("/")
    named, at, host = place.rpartition("@")
    if at:
        user, _, password = named.partition(":")
        return f"{scheme}{mark}{host}{slash}{path}", basic(unquote(user), unquote(password))
    found = credentials_of_environment(REGISTRY_PREFIX)
    return f"{scheme}{mark}{rest}", None if found is None else basic(found.user, found.password)


class _Answer(Protocol):
    """Collects the body of an answer, up to a limit."""

    def __init__(self) -> None:
        self.ended: Deferred[bytes] = Deferred(lambda _: self._abort())
        self._pieces: list[bytes] = []
        self._received = 0

    def dataReceived(self, data: bytes) -> None:  # noqa: N802  # Twisted calls it
        """Keep a piece."""
        self._received += len(data)
        if self._received > MOST_ANSWER_BYTES:
            self._abort()
        else:
            self._pieces.append(data)

    def connectionLost(self, reason: Failure = connectionDone) -> None:  # noqa: N802  # as above
        """End."""
        if self.ended.called:
            return
        if self._received > MOST_ANSWER_BYTES:
            self.ended.errback(ValueError(f"more than {MOST_ANSWER_BYTES} bytes"))
        elif reason.check(ResponseDone, PotentialDataLoss, ConnectionDone):
            self.ended.callback(b"".join(self._pieces))
        else:
            self.ended.errback(reason)

    def _abort(self) -> None:
        transport: Any = self.transport
        if transport is not None:
            transport.abortConnection()
