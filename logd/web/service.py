"""The HTTP pages as a Twisted service, which listens before anything else of the broker is started."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry
from twisted.application.service import Service
from twisted.internet.defer import Deferred, maybeDeferred
from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import IListeningPort
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.web.resource import Resource

from logd.errors import ConfigurationError
from logd.unprinted import leave_unprinted
from logd.web.bounded_site import BoundedSite
from logd.web.guard import GuardedPages, Guards
from logd.web.site import Health, OpenRegistry, QuietSite, pages


class PagesService(Service):
    """Serves /health and /metrics at ``endpoint``, and a schema registry if asked to."""

    _log = Logger()

    def __init__(
        self,
        reactor: Any,
        endpoint: str,
        health: Health,
        registry: CollectorRegistry,
        foreground: bool = False,
        schemas: OpenRegistry | None = None,
        option: str = "http",
        check: Callable[[str], None] = lambda host: None,
        guards: Callable[[], Guards | None] | None = None,
        principal: str = "CN",
        console: Resource | None = None,
    ) -> None:
        """``foreground``: a person at a terminal reads a failure to start, so it is shown without a traceback.

        ``schemas``: serve that schema registry too. ``option`` is the one that gives the endpoint, for error texts.
        ``check(host)`` raises ConfigurationError if the pages may not be served on that address. ``guards()`` returns
        what knows the users and their rights; without it everybody may see all pages. ``principal``: what in a client's
        certificate names the user, see security.client.principal. ``console`` is what is served at /console.
        """
        self._reactor = reactor
        self._endpoint = endpoint
        root: Resource = pages(health, registry, schemas, console)
        self._site = BoundedSite(QuietSite(root if guards is None else GuardedPages(root, guards, principal)))
        self._foreground = foreground
        self._option = option
        self._check = check
        self.port: IListeningPort | None = None

    def privilegedStartService(self) -> None:  # noqa: N802  # Twisted calls it
        """Listen, before any service is started and a data directory is touched.

        Raises ConfigurationError if the endpoint cannot be listened on: at once, since a later failure in the
        background would go unnoticed.
        """
        outcome: list[Any] = []
        serverFromString(self._reactor, self._endpoint).listen(self._site).addBoth(outcome.append)
        if outcome and isinstance(outcome[0], Failure):
            text = (
                f"cannot listen on {self._option} = {self._endpoint!r}: "
                f"{outcome[0].getErrorMessage().rstrip('.')}; "
                f"is something else running there? Give another --{self._option}"
            )
            raise self._refused(ConfigurationError(text))
        port = outcome[0] if outcome else None
        try:
            self._check(getattr(port.getHost(), "host", "127.0.0.1") if port is not None else "127.0.0.1")
        except ConfigurationError as error:
            if port is not None:
                port.stopListening()
            raise self._refused(error) from None
        self.port = port

    def _refused(self, error: ConfigurationError) -> ConfigurationError:
        """Log why the pages are not served, and return the error."""
        self._log.critical("cannot start: {error}", error=str(error))
        if self._foreground:
            leave_unprinted(error)
        return error

    def startService(self) -> None:  # noqa: N802  # Twisted calls it
        """Listen, if ``privilegedStartService`` was not called."""
        super().startService()  # type: ignore[no-untyped-call]  # Twisted has no annotations there
        if self.port is None:
            self.privilegedStartService()

    def stopService(self) -> Deferred[Any]:  # noqa: N802  # Twisted calls it
        """Stop listening. Fires when the port is closed."""
        super().stopService()  # type: ignore[no-untyped-call]  # as above
        port, self.port = self.port, None
        return maybeDeferred(port.stopListening if port is not None else lambda: None)
