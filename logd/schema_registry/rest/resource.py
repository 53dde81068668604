"""The registry's resource of twisted.web: finds the endpoint, checks content types and answers in JSON.

Whatever is sent, the answer is an object with ``error_code`` and ``message``, and never a traceback.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from twisted.internet.defer import Deferred
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource
from twisted.web.server import NOT_DONE_YET, Request

from logd.coord.errors import CoordinationError
from logd.schema_registry.errors import SchemaRegistryError, TreeUnavailable
from logd.schema_registry.registry import SchemaRegistry
from logd.schema_registry.rest.endpoints import ROUTES, Endpoint
from logd.schema_registry.rest.parameters import RestRequest

CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
#: Types that a body may be said to have, and of which a client has to accept one.
CONTENT_TYPES = (CONTENT_TYPE, "application/vnd.schemaregistry+json", "application/json")
_BODY_TYPES = (*CONTENT_TYPES, "application/octet-stream")
#: Requests under way at a time.
MOST_AT_ONCE = 2_000
#: The first parts of the paths that belong to the registry.
CHILDREN = tuple(sorted({route.path[0] for route in ROUTES}))


class _Refused(SchemaRegistryError):
    """HTTP's own errors, with the texts of Confluent's registry."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"HTTP {status} {text}")
        self.refused = status


class SchemaRegistryResource(Resource):
    """Serves all paths of a registry. ``open_registry`` returns None before the tree's client is made."""

    isLeaf = True  # noqa: N815  # Twisted reads it
    _log = Logger()

    def __init__(
        self, open_registry: Callable[[], SchemaRegistry | None], count: Callable[[int], object] = lambda _: None
    ) -> None:
        """``count`` is called with the HTTP status of each answer."""
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted has no annotations there
        self._open = open_registry
        self._count = count
        self._under_way = 0

    def render(self, request: Request) -> Any:
        """Answer any method, later."""
        gone: list[object] = []
        request.notifyFinish().addErrback(gone.append)
        self._under_way += 1
        # A change is not ended with its connection: the client cannot know how far it came.
        answering = Deferred.fromCoroutine(self._answer(request))
        answering.addErrback(self._failed)
        answering.addCallback(self._write, request, gone)
        return NOT_DONE_YET

    async def _answer(self, request: Request) -> tuple[int, Any]:
        try:
            if self._under_way > MOST_AT_ONCE:
                raise _Refused(503, "Service Unavailable: too many requests at a time")
            endpoint, parts = _endpoint(request)
            _require_types(request)
            registry = self._open()
            if registry is None:
                raise TreeUnavailable("The registry is starting; try again")
            return 200, await endpoint(registry, RestRequest(parts, _query(request), _body(request)))
        except _Refused as error:
            return error.refused, _error(error.refused, str(error))
        except SchemaRegistryError as error:
            return error.status, _error(error.code, str(error))
        except CoordinationError as error:
            self._log.warn("the coordination tree did not answer a request for schemas: {error}", error=str(error))
            text = f"Operation timed out or failed in the coordination tree, and can be repeated: {error}"
            return TreeUnavailable.status, _error(TreeUnavailable.code, text)

    def _failed(self, failure: Failure) -> tuple[int, Any]:
        self._log.failure("a request for schemas failed by a defect of the registry", failure)
        return 500, _error(500, "Internal Server Error")

    def _write(self, answer: tuple[int, Any], request: Request, gone: list[object]) -> None:
        self._under_way -= 1
        status, value = answer
        self._count(status)
        if gone:
            return
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        request.setResponseCode(status)
        request.setHeader(b"content-type", _content_type(request).encode())
        request.setHeader(b"content-length", str(len(body)).encode())
        request.setHeader(b"cache-control", b"no-store")
        request.write(body)
        request.finish()


def _endpoint(request: Request) -> tuple[Endpoint, tuple[str, ...]]:
    """Return the endpoint and the variable parts of the path. Raises _Refused."""
    try:
        path = [unquote(each.decode("ascii"), errors="strict") for each in request.path.split(b"/")[1:]]
        method = request.method.decode("ascii")
    except UnicodeDecodeError:
        raise _Refused(404, "Not Found") from None
    if len(path) > 1 and not path[-1]:
        path.pop()
    method = "GET" if method == "HEAD" else method
    allowed = []
    for route in ROUTES:
        parts = route.match(path)
        if parts is not None:
            if route.method == method:
                return route.endpoint, parts
            allowed.append(route.method)
    if allowed:
        request.setHeader(b"allow", ", ".join(sorted(set(allowed))).encode())
        raise _Refused(405, "Method Not Allowed")
    raise _Refused(404, "Not Found")


def _require_types(request: Request) -> None:
    """Refuse a body of another type, and a client that accepts none of ours."""
    given = request.getHeader("content-type")
    if request.method in (b"POST", b"PUT") and given and _media_type(given) not in _BODY_TYPES:
        raise _Refused(415, "Unsupported Media Type")
    accepted = _accepted(request)
    if accepted and not any(each in CONTENT_TYPES or each in ("*/*", "application/*") for each in accepted):
        raise _Refused(406, "Not Acceptable")


def _content_type(request: Request) -> str:
    return next((each for each in _accepted(request) if each in CONTENT_TYPES), CONTENT_TYPE)


def _accepted(request: Request) -> list[str]:
    return [_media_type(each) for each in (request.getHeader("accept") or "").split(",") if each.strip()]


def _media_type(text: str) -> str:
    return text.partition(";")[0].strip().lower()


def _query(request: Request) -> dict[str, str]:
    return {
        name.decode("utf-8", "replace"): values[-1].decode("utf-8", "replace")
        for name, values in (request.args or {}).items()
    }


def _body(request: Request) -> bytes:
    content = request.content
    body: bytes = content.read() if content is not None else b""
    return body


def _error(code: int, message: str) -> dict[str, Any]:
    return {"error_code": code, "message": message}
