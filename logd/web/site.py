"""The HTTP pages: /health for supervisors, /metrics for Prometheus, and the paths of a schema registry if asked for."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from prometheus_client import CollectorRegistry, Counter
from twisted.logger import Logger
from twisted.web.resource import Resource
from twisted.web.server import Request, Site
from twisted.web.util import Redirect

from logd.schema_registry.registry import SchemaRegistry
from logd.schema_registry.rest.resource import CHILDREN, SchemaRegistryResource
from logd.web.bounded_request import BoundedRequest
from logd.web.guard import may_see_details
from logd.web.metrics_page import metrics_page

#: Returns a schema registry, None before it can be used.
OpenRegistry = Callable[[], SchemaRegistry | None]
#: Returns the content of /health. Its "status" is "ok" while the broker does its work, else one word for the problem.
Health = Callable[[], Mapping[str, Any]]


class HealthResource(Resource):
    """Answers 200 while ``health()["status"]`` is "ok", else 503, with ``health()`` as JSON."""

    isLeaf = True  # noqa: N815  # Twisted reads it
    _log = Logger()

    def __init__(self, health: Health) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted has no annotations there
        self._health = health

    def render_GET(self, request: Request) -> bytes:  # noqa: N802  # Twisted calls it
        """Answer GET, and HEAD too, which Twisted serves by this method."""
        try:
            page = dict(self._health())
        except Exception:
            self._log.failure("health could not be told")
            page = {"status": "unknown"}
        request.setResponseCode(200 if page.get("status") == "ok" else 503)
        if not may_see_details(request):
            page = {"status": page.get("status")}
        request.setHeader(b"content-type", b"application/json")
        request.setHeader(b"cache-control", b"no-store")
        return json.dumps(page, default=str).encode() + b"\n"


class QuietSite(Site):
    """A site without an access log: its pages are requested every few seconds, for ever."""

    noisy = False
    displayTracebacks = False  # noqa: N815  # Twisted reads it
    requestFactory = BoundedRequest  # noqa: N815  # as above

    def log(self, request: Any) -> None:
        """Keep silent."""


def pages(
    health: Health,
    registry: CollectorRegistry,
    schemas: OpenRegistry | None = None,
    console: Resource | None = None,
) -> Resource:
    """Return the root resource of the pages, with the paths of a schema registry and of a console if they are given."""
    root = Resource()
    root.putChild(b"health", HealthResource(health))
    root.putChild(b"metrics", metrics_page(registry))
    if console is not None:
        root.putChild(b"console", console)
        root.putChild(b"", Redirect(b"/console"))
    if schemas is not None:
        answers = Counter("logd_schema_registry_answers", "Answers to requests.", ["status"], registry=registry)
        resource = SchemaRegistryResource(schemas, lambda status: answers.labels(status).inc())
        for name in CHILDREN:
            root.putChild(name.encode(), resource)
    return root
