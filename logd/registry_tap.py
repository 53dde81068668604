"""``twistd logd-registry``: reads options, and wires a schema registry of its own over a coordination tree."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from functools import partial
from typing import Any

from attrs import frozen
from prometheus_client import CollectorRegistry
from twisted.application.service import IService, MultiService, Service
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import serverFromString
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.usage import UsageError

from logd import __version__
from logd.broker.security.authentication import Authentication
from logd.broker.security.authorizer import Authorizer
from logd.broker.security.security_view import SecurityView
from logd.config.security import SecuritySettings
from logd.config.zookeeper import HOSTS_VARIABLE, security_of_environment
from logd.coord.errors import ClientClosing
from logd.coord.interfaces import ICoordination
from logd.coord.records import SessionState
from logd.coord.zookeeper.client import ZooKeeperCoordination
from logd.coord.zookeeper.settings import FOR_EVER, CoordinationSettings
from logd.errors import ConfigurationError
from logd.net.threads import DiskThreads
from logd.net.tls import endpoint_problem
from logd.service_options import ServiceOptions

DEFAULT_ZOOKEEPER = "127.0.0.1:2181"
#: The port of Confluent's registry, on loopback.
DEFAULT_LISTEN = "tcp:8081:interface=127.0.0.1"
#: Seconds within which the tree answers, or the client of the registry gets an error.
OPERATION_SECONDS = 10.0


class RegistryOptions(ServiceOptions):
    """The options of ``twistd logd-registry``. ``settings`` is set once the options are parsed."""

    command = "logd-registry"
    settings: CoordinationSettings
    environ: Mapping[str, str] = os.environ

    #: The users, and the rules for them.
    security: SecuritySettings

    synopsis = "[--zookeeper HOST:PORT,...] [--listen ENDPOINT]"

    longdesc = """\
Runs a schema registry with the REST interface of Confluent's: schemas of Avro and JSON Schema, kept in the coordination
tree of the brokers. Several of them over one tree agree; a broker with --http serves one too. TLS and credentials of
the tree come from LOGD_ZOOKEEPER_* variables, as for the commands. The users and access rules are those of the brokers:
every user may read schemas, and change those of a topic's subjects who may write to it. Try it: "curl http://127.0.0.1:8081/subjects"."""

    optParameters: list[list[Any]] = [  # noqa: N815, RUF012  # Twisted reads it
        ["zookeeper", "z", None, f"The coordination tree, HOST:PORT,.../PATH [default: {DEFAULT_ZOOKEEPER}]"],
        ["listen", "l", DEFAULT_LISTEN, "The address that clients connect to, as a Twisted endpoint (ssl:... for TLS)"],
        [
            "superusers",
            None,
            "",
            "Users who may do everything, separated by commas (security.superusers of brokers)",
        ],
        ["client-authorities", None, None, "Authorities of clients' certificates; see security.client.authorities"],
    ]

    optFlags: list[list[Any]] = [  # noqa: N815, RUF012  # as above
        ["required", None, "Allow only what access rules allow, also while there are no users; see security.required"],
        ["open-to-network", None, "Listen for other machines although there may be no users"],
    ]

    def opt_version(self) -> None:
        """Display the version and exit."""
        print(f"logd {__version__}")
        raise SystemExit(0)

    def postOptions(self) -> None:  # noqa: N802  # Twisted calls it
        """Validate the settings. A UsageError names the option and the value."""
        from twisted.internet import reactor

        hosts = self["zookeeper"] or self.environ.get(HOSTS_VARIABLE) or DEFAULT_ZOOKEEPER
        try:
            self.settings = CoordinationSettings.secured(
                hosts,
                security_of_environment(self.environ),
                connect_timeout=FOR_EVER,
                operation_timeout=OPERATION_SECONDS,
            )
        except ConfigurationError as error:
            raise UsageError(str(error)) from error
        try:
            self.security = SecuritySettings(
                security_required=bool(self["required"]),
                security_superusers=self["superusers"],
                security_client_authorities=self["client-authorities"],
                open_to_network=bool(self["open-to-network"]),
            )
        except ConfigurationError as error:
            raise UsageError(str(error)) from error
        try:
            serverFromString(reactor, self["listen"])
        except Exception as error:  # an endpoint's parser may raise anything: ValueError, TypeError, OSError, SSL's
            raise UsageError(
                f"--listen {self['listen']!r} is not allowed ({endpoint_problem(error)}); "
                f"allowed is a Twisted server endpoint description, such as {DEFAULT_LISTEN!r}"
            ) from error


#: The name by which twistd finds the options.
Options = RegistryOptions


@frozen
class TreeGuards:
    """The users and rules of a server that is no broker."""

    authentication: Authentication
    authorizer: Authorizer
    #: Quotas hold at brokers.
    quotas: None = None


class TreeClientService(Service):
    """Keeps a client of the coordination tree connected, and users and rules known, while the service runs."""

    _log = Logger()

    def __init__(self, reactor: Any, settings: CoordinationSettings, security: SecuritySettings) -> None:
        self._reactor = reactor
        self._settings = settings
        self._client: ICoordination | None = None
        self._threads = DiskThreads(reactor, 1, "logd-passwords")
        self._guards = TreeGuards(
            Authentication(reactor, self._threads), Authorizer(security.security_required, security.superusers)
        )
        self._view: SecurityView | None = None

    def guards(self) -> TreeGuards | None:
        """Return what knows users and rules; None until they have been read."""
        return self._guards if self._guards.authorizer.is_known else None

    def client(self) -> ICoordination | None:
        """Return the client; None before the start."""
        return self._client

    def health(self) -> dict[str, Any]:
        """Return the content of /health."""
        connected = self._client is not None and self._client.state is SessionState.CONNECTED
        if not connected:
            status = "the coordination tree does not answer"
        elif self.guards() is None:
            status = "users and access rules are not read yet"
        else:
            status = "ok"
        return {"status": status, "tree": self._settings.hosts}

    def startService(self) -> None:  # noqa: N802  # Twisted calls it
        """Connect, and go on trying while the tree is away."""
        super().startService()  # type: ignore[no-untyped-call]  # Twisted has no annotations there
        self._client = ZooKeeperCoordination(self._reactor, self._settings)
        authentication = self._guards.authentication
        self._threads.start()
        self._view = SecurityView(
            self._client,
            self._reactor,
            self._guards.authorizer,
            authentication,
            authentication.take,
            lambda quotas: None,
            lambda *changed, **details: None,
        )
        self._view.start()
        self._client.connect().addErrback(self._not_connected)
        self._reactor.callWhenRunning(self._catch_terminate)
        self._log.info("serves the schema registry in the coordination tree at {hosts}", hosts=self._settings.hosts)

    def stopService(self) -> Deferred[None] | None:  # noqa: N802  # Twisted calls it
        """Close the client. Fires when the session has ended."""
        super().stopService()  # type: ignore[no-untyped-call]  # as above
        if self._view is not None:
            self._view.stop()
            self._threads.stop()
        return self._client.close() if self._client is not None else None

    def _not_connected(self, failure: Failure) -> None:
        if not failure.check(ClientClosing):
            self._log.critical(
                "the coordination tree at {hosts} cannot be reached: {error}; start this again once that is mended",
                hosts=self._settings.hosts,
                error=failure.getErrorMessage(),
            )

    def _catch_terminate(self) -> None:
        """Let SIGTERM end the process with 0: by default Twisted exits with the signal's status."""
        terminated: list[int] = []

        def stop() -> None:
            if not terminated:
                terminated.append(1)
                self._reactor.stop()

        signal.signal(signal.SIGTERM, lambda number, frame: self._reactor.callFromThread(stop))


def makeService(options: RegistryOptions) -> IService:  # noqa: N802  # twistd calls it
    """Return the registry's service. Starts nothing, as twistd forks later."""
    from twisted.internet import reactor

    from logd.broker.listening.ports import check_open
    from logd.net.monotonic import use_monotonic_time
    from logd.net.server_tls import reactor_for_listeners
    from logd.schema_registry.registry import OpenedRegistry
    from logd.web.service import PagesService

    use_monotonic_time(reactor)
    security = options.security
    tree = TreeClientService(reactor, options.settings, security)
    services = MultiService()
    required = security.security_client_certificates == "required"
    pages = PagesService(
        reactor_for_listeners(reactor, security.security_client_authorities, required),
        options["listen"],
        tree.health,
        CollectorRegistry(),
        options.foreground,
        OpenedRegistry(tree.client, reactor).get,
        option="listen",
        check=partial(check_open, security, "listen", options["listen"]),
        guards=tree.guards,
    )
    for each in (pages, tree):
        each.setServiceParent(services)  # type: ignore[no-untyped-call]  # as above
    return services
