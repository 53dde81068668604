"""The console of a broker as a service: it samples while the broker runs, and its pages are served at /console."""

from __future__ import annotations

from typing import Any

from twisted.application.service import Service
from twisted.logger import Logger
from twisted.web.resource import Resource
from twisted.web.server import Request

from logd.broker.service import BrokerService
from logd.config import BrokerSettings, parse_address
from logd.protocol.optional_packages import pip_install
from logd.web.site import OpenRegistry

_log = Logger()
_MISSING = f"The console needs the package jinja2: {pip_install('console')}, and start the broker again.\n"


class MissingConsole(Resource):
    """Says which package the console needs."""

    isLeaf = True  # noqa: N815  # Twisted reads it

    def render_GET(self, request: Request) -> bytes:  # noqa: N802  # Twisted calls it
        """Answer GET."""
        request.setResponseCode(501)
        request.setHeader(b"content-type", b"text/plain; charset=utf-8")
        return _MISSING.encode()


class Repeated(Service):
    """Work that is repeated while the broker runs, each kind with ``start`` and ``stop``."""

    def __init__(self, *works: Any) -> None:
        self._works = works

    def startService(self) -> None:  # noqa: N802  # Twisted calls it
        """Begin."""
        super().startService()  # type: ignore[no-untyped-call]  # Twisted has no annotations there
        for work in self._works:
            work.start()

    def stopService(self) -> None:  # noqa: N802  # as above
        """End."""
        super().stopService()  # type: ignore[no-untyped-call]  # as above
        for work in self._works:
            work.stop()


def console(
    reactor: Any, service: BrokerService, settings: BrokerSettings, schemas: OpenRegistry | None = None
) -> tuple[Resource, Service]:
    """Return the pages and the service that samples for them and for the metrics of groups.

    Without the package jinja2 there is one page, which says so.
    """
    from logd.web.console.sources import ConsoleSources
    from logd.web.group_metrics import GroupLagMetrics

    def own_settings() -> dict[str, Any]:
        """Return the settings of clients that have this broker's own identity, where anybody needs one."""
        broker = service.broker
        if broker is None or broker.authorizer.open:
            return {}
        own = broker.authentication.own_credentials()
        return {"user": own.user, "password": own.password}

    sources = ConsoleSources(reactor, lambda: service.broker, service.coordination, own_settings)

    lags = GroupLagMetrics(reactor, sources.groups.all)
    service.registry.register(lags)
    try:
        from logd.web.console.resource import ConsoleResource
    except ModuleNotFoundError as error:
        if error.name not in ("jinja2", "markupsafe"):
            raise
        return MissingConsole(), Repeated(lags)

    def hosts() -> frozenset[str]:
        return frozenset() if settings.advertise is None else frozenset({parse_address(settings.advertise)[0].lower()})

    registry = schemas or (lambda: None)
    return ConsoleResource(reactor, sources, hosts=hosts, registry=registry), Repeated(sources, lags)
