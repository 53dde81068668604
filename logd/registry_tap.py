"""``twistd logd-registry``: reads options, and wires a schema registry of its own over a coordination tree."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from typing import Any

from prometheus_client import CollectorRegistry
from twisted.application.service import IService, MultiService, Service
from twisted.internet.defer import Deferred
from twisted.internet.endpoints import serverFromString
from twisted.logger import Logger
from twisted.python.failure import Failure
from twisted.python.usage import UsageError

from logd import __version__
from logd.config.zookeeper import security_of_environment
from logd.coord.errors import ClientClosing
from logd.coord.interfaces import ICoordination
from logd.coord.records import SessionState
from logd.coord.zookeeper.client import ZooKeeperCoordination
from logd.coord.zookeeper.settings import FOR_EVER, CoordinationSettings
from logd.errors import ConfigurationError
from logd.service_options import ServiceOptions

#: The environment variable with the servers of the coordination tree, used if no option names them.
ZOOKEEPER_VARIABLE = "LOGD_ZOOKEEPER"
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

    synopsis = "[--zookeeper HOST:PORT,...] [--listen ENDPOINT]"

    longdesc = """\
Runs a schema registry with the REST interface of Confluent's: schemas of Avro and JSON Schema, kept in the coordination
tree of the brokers. Several of them over one tree agree; a broker with --http serves one too. TLS and credentials of
the tree come from LOGD_ZOOKEEPER_* variables, as for the commands. Try it: "curl http://127.0.0.1:8081/subjects"."""

    optParameters: list[list[Any]] = [  # noqa: N815, RUF012  # Twisted reads it
        ["zookeeper", "z", None, f"The coordination tree, HOST:PORT,.../PATH [default: {DEFAULT_ZOOKEEPER}]"],
        ["listen", "l", DEFAULT_LISTEN, "The address that clients connect to, as a Twisted endpoint (ssl:... for TLS)"],
    ]

    def opt_version(self) -> None:
        """Display the version and exit."""
        print(f"logd {__version__}")
        raise SystemExit(0)

    def postOptions(self) -> None:  # noqa: N802  # Twisted calls it
        """Validate the settings. A UsageError names the option and the value."""
        from twisted.internet import reactor

        hosts = self["zookeeper"] or self.environ.get(ZOOKEEPER_VARIABLE) or DEFAULT_ZOOKEEPER
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
            serverFromString(reactor, self["listen"])
        except Exception as error:  # an endpoint's parser may raise anything: ValueError, TypeError, OSError, SSL's
            raise UsageError(
                f"--listen {self['listen']!r} is not allowed ({error}); "
                f"allowed is a Twisted server endpoint description, such as {DEFAULT_LISTEN!r}"
            ) from error


#: The name by which twistd finds the options.
Options = RegistryOptions


class TreeClientService(Service):
    """Keeps a client of the coordination tree connected while the service runs."""

    _log = Logger()

    def __init__(self, reactor: Any, settings: CoordinationSettings) -> None:
        self._reactor = reactor
        self._settings = settings
        self._client: ICoordination | None = None

    def client(self) -> ICoordination | None:
        """Return the client; None before the start."""
        return self._client

    def health(self) -> dict[str, Any]:
        """Return the content of /health."""
        connected = self._client is not None and self._client.state is SessionState.CONNECTED
        return {"status": "ok" if connected else "the coordination tree does not answer", "tree": self._settings.hosts}

    def startService(self) -> None:  # noqa: N802  # Twisted calls it
        """Connect, and go on trying while the tree is away."""
        super().startService()  # type: ignore[no-untyped-call]  # Twisted has no annotations there
        self._client = ZooKeeperCoordination(self._reactor, self._settings)
        self._client.connect().addErrback(self._not_connected)
        self._reactor.callWhenRunning(self._catch_terminate)
        self._log.info("serves the schema registry in the coordination tree at {hosts}", hosts=self._settings.hosts)

    def stopService(self) -> Deferred[None] | None:  # noqa: N802  # Twisted calls it
        """Close the client. Fires when the session has ended."""
        super().stopService()  # type: ignore[no-untyped-call]  # as above
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

    from logd.net.monotonic import use_monotonic_time
    from logd.schema_registry.registry import OpenedRegistry
    from logd.web.service import PagesService

    use_monotonic_time(reactor)
    tree = TreeClientService(reactor, options.settings)
    services = MultiService()
    pages = PagesService(
        reactor,
        options["listen"],
        tree.health,
        CollectorRegistry(),
        options.foreground,
        OpenedRegistry(tree.client, reactor).get,
        option="listen",
    )
    for each in (pages, tree):
        each.setServiceParent(services)  # type: ignore[no-untyped-call]  # as above
    return services
