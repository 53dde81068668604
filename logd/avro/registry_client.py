"""A client of a schema registry, logd's or Confluent's: each schema is asked for once, however many wait for it."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Hashable
from typing import Any, TypeVar
from urllib.parse import quote

from twisted.internet.defer import Deferred
from twisted.python.failure import Failure
from twisted.web.iweb import IAgent

from logd.avro.answers import RegisteredSchema, RegistryUnavailable, read_schema
from logd.avro.registry_requests import TIMEOUT, RegistryRequests
from logd.checkedjson import INT32_MAX, excerpt
from logd.deferreds.waiting import WaitingDeferreds

T = TypeVar("T")

#: Answers kept. A schema never changes, so they are forgotten for want of room alone.
MOST_KEPT = 10_000


class SchemaRegistryClient:
    """Asks the registry at ``url``, such as ``http://127.0.0.1:8081``. For the reactor's thread alone.

    Each call fails with RegistryUnavailable within ``timeout`` seconds if there is no answer, with RegistryRefusal if
    the registry refuses. What failed is not remembered: the next call asks again.
    """

    def __init__(self, url: str, *, reactor: Any, timeout: float = TIMEOUT, agent: IAgent | None = None) -> None:
        """``agent`` sends the requests, by default one that keeps connections open until ``close``."""
        self._requests = RegistryRequests(url, reactor=reactor, timeout=timeout, agent=agent)
        self.url = self._requests.url
        self._kept: dict[Hashable, Any] = {}
        self._asked: dict[Hashable, WaitingDeferreds[Any]] = {}

    @property
    def requests(self) -> int:
        """Return the number of requests sent."""
        return self._requests.sent

    async def schema(self, schema_id: int) -> RegisteredSchema:
        """Return the schema with an id."""

        async def ask() -> RegisteredSchema:
            return read_schema(self.url, await self._ask("GET", f"/schemas/ids/{schema_id}"))

        return await self._once(("id", schema_id), ask)

    async def version(self, subject: str, version: int) -> RegisteredSchema:
        """Return the schema of a version, which may be deleted softly, as versions that are referred to may be."""

        async def ask() -> RegisteredSchema:
            path = f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true"
            return read_schema(self.url, await self._ask("GET", path))

        return await self._once(("version", subject, version), ask)

    async def register(self, subject: str, text: str) -> int:
        """Register an Avro schema unless it is registered; return its id."""

        async def ask() -> int:
            answer = await self._ask("POST", f"/subjects/{quote(subject, safe='')}/versions", {"schema": text})
            schema_id = answer.get("id")
            if type(schema_id) is not int or not 0 < schema_id <= INT32_MAX:
                raise RegistryUnavailable(f"the registry at {self.url} gave no id but {excerpt(schema_id)}")
            return schema_id

        return await self._once(("register", subject, text), ask)

    async def close(self) -> None:
        """Close the connections."""
        await self._requests.close()

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

    async def _ask(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        value = await self._requests.ask(method, path, body)
        if not isinstance(value, dict):
            raise RegistryUnavailable(f"{self.url}{path} answers what no registry does: {excerpt(value)}")
        return value
