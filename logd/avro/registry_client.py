"""A client of a schema registry, logd's or Confluent's: each schema is asked for once, however many wait for it."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine, Hashable
from io import BytesIO
from typing import Any, TypeVar
from urllib.parse import quote

from twisted.internet.defer import Deferred
from twisted.internet.error import ConnectionDone
from twisted.internet.protocol import Protocol, connectionDone
from twisted.python.failure import Failure
from twisted.web.client import Agent, FileBodyProducer, HTTPConnectionPool, ResponseDone
from twisted.web.http import PotentialDataLoss
from twisted.web.http_headers import Headers
from twisted.web.iweb import IAgent, IResponse

from logd.avro.answers import (
    CONTENT_TYPE,
    MOST_ANSWER_BYTES,
    RegisteredSchema,
    RegistryRefusal,
    RegistryUnavailable,
    no_answer,
    read_answer,
    read_schema,
)
from logd.checkedjson import INT32_MAX, excerpt
from logd.deferreds.waiting import WaitingDeferreds

#: The errors of the client, for its users.
__all__ = ("RegistryRefusal", "RegistryUnavailable", "SchemaRegistryClient")

T = TypeVar("T")

#: Seconds that an answer of the registry may take.
TIMEOUT = 30.0
#: Answers kept. A schema never changes, so they are forgotten for want of room alone.
MOST_KEPT = 10_000


class SchemaRegistryClient:
    """Asks the registry at ``url``, such as ``http://127.0.0.1:8081``. For the reactor's thread alone.

    Each call fails with RegistryUnavailable within ``timeout`` seconds if there is no answer, with RegistryRefusal if
    the registry refuses. What failed is not remembered: the next call asks again.
    """

    def __init__(self, url: str, *, reactor: Any, timeout: float = TIMEOUT, agent: IAgent | None = None) -> None:
        """``agent`` sends the requests, by default one that keeps connections open until ``close``."""
        self.url = url.rstrip("/")
        self._reactor = reactor
        self._timeout = timeout
        self._pool = HTTPConnectionPool(reactor)
        self._agent: Any = agent if agent is not None else Agent(reactor, connectTimeout=timeout, pool=self._pool)
        self._kept: dict[Hashable, Any] = {}
        self._asked: dict[Hashable, WaitingDeferreds[Any]] = {}
        #: Requests sent.
        self.requests = 0

    async def schema(self, schema_id: int) -> RegisteredSchema:
        """Return the schema with an id."""

        async def ask() -> RegisteredSchema:
            return read_schema(self.url, await self._request("GET", f"/schemas/ids/{schema_id}"))

        return await self._once(("id", schema_id), ask)

    async def version(self, subject: str, version: int) -> RegisteredSchema:
        """Return the schema of a version, which may be deleted softly, as versions that are referred to may be."""

        async def ask() -> RegisteredSchema:
            path = f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"
            return read_schema(self.url, await self._request("GET", path))

        return await self._once(("version", subject, version), ask)

    async def register(self, subject: str, text: str) -> int:
        """Register an Avro schema unless it is registered; return its id."""

        async def ask() -> int:
            answer = await self._request("POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": text})
            schema_id = answer.get("id")
            if type(schema_id) is not int or not 0 < schema_id <= INT32_MAX:
                raise RegistryUnavailable(f"the registry at {self.url} gave no id but {excerpt(schema_id)}")
            return schema_id

        return await self._once(("register", subject, text), ask)

    async def close(self) -> None:
        """Close the connections."""
        await self._pool.closeCachedConnections()

    async def _once(self, key: Hashable, ask: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return what ``ask`` returned before, or will return to the caller that asked first."""
        if key in self._kept:
            kept: T = self._kept[key]
            return kept
        waiting: WaitingDeferreds[T] | None = self._asked.get(key)
        if waiting is None:
            waiting = self._asked[key] = WaitingDeferreds()
            # The request belongs to no caller: one that is cancelled does not take it from the others.
            answer = waiting.new()
            Deferred.fromCoroutine(ask()).addBoth(self._answered, key)
            return await answer
        return await waiting.new()

    def _answered(self, result: Any, key: Hashable) -> None:
        waiting = self._asked.pop(key)
        if isinstance(result, Failure):
            waiting.fail(result)
            return
        self._kept[key] = result
        if len(self._kept) > MOST_KEPT:
            del self._kept[next(iter(self._kept))]
        waiting.fire(result)

    async def _request(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        self.requests += 1
        headers = Headers({"accept": [CONTENT_TYPE], "content-type": [CONTENT_TYPE]})
        producer = None if body is None else FileBodyProducer(BytesIO(json.dumps(body).encode()))
        asking: Deferred[tuple[int, bytes]] = Deferred.fromCoroutine(self._send(method, path, headers, producer))
        asking.addTimeout(self._timeout, self._reactor)
        try:
            status, data = await asking
        except ValueError as error:
            raise RegistryUnavailable(f"{self.url}{path} answers what no registry does: {error}") from None
        except Exception as error:  # of a connection, of TLS, of HTTP, or the time limit
            raise no_answer(self.url, error) from error
        value = read_answer(f"{self.url}{path}", status, data)
        if not isinstance(value, dict):
            raise RegistryUnavailable(f"{self.url}{path} answers what no registry does: {excerpt(value)}")
        return value

    async def _send(
        self, method: str, path: str, headers: Headers, producer: FileBodyProducer | None
    ) -> tuple[int, bytes]:
        response: IResponse = await self._agent.request(
            method.encode(), f"{self.url}{path}".encode(), headers, producer
        )
        collecting = _Answer()
        response.deliverBody(collecting)
        return response.code, await collecting.ended


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
