"""``twistd logd``: reads options and the settings file, and wires the broker's service. Opens nothing."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import Any

from twisted.application.service import IService, MultiService, Service
from twisted.python.usage import CompleteDirs, CompleteFiles, Completions, UsageError

from logd import __version__
from logd.config import BrokerSettings, Source, broker_settings, parse_assignments, read_toml
from logd.config.kinds import OneOrMore, Switch
from logd.config.setting import Setting
from logd.config.sources import ROWS
from logd.config.zookeeper import HOSTS_VARIABLE, values_of_environment
from logd.errors import ConfigurationError, MissingPackage
from logd.log.disk.names import COORDINATION, META
from logd.protocol.implementation import described
from logd.service_options import ServiceOptions
from logd.supervision.notify_socket import notify_socket
from logd.unused_tls import leave_tls_out

#: The settings that decide whether a broker joins a coordination tree or serves its own.
_TREE_SETTINGS = ("zookeeper.hosts", "zookeeper.listen")
_LOOPBACK = ("127.0.0.1", "localhost", "[::1]")

_ROWS = [row for row in ROWS.values() if row.option]


def _described(row: Setting) -> str:
    default = "required" if row.required else f"default: {row.default}" if row.default is not None else ""
    return f"{row.meaning.rstrip('.')}{f' [{default}]' if default else ''}"


def _parsed(row: Setting, given: Any) -> object:
    """Return the value of an option: a text, the texts of an option that was given again, or 1 for a flag."""
    if isinstance(row.kind, OneOrMore):
        return [row.parse(each) for each in given]
    return True if isinstance(row.kind, Switch) else row.parse(given)


class Options(ServiceOptions):
    """The options of ``twistd logd``. ``settings`` is set once the options are parsed."""

    command = "logd"
    settings: BrokerSettings
    environ: Mapping[str, str] = os.environ
    #: True where this process will be a broker and nothing else, as always under twistd.
    alone = False

    synopsis = "--data DIR [--config FILE.toml] [--set KEY=VALUE ...] [options]"

    longdesc = """\
Runs a broker: it collects messages that producers send, keeps them in partitioned logs under --data, and delivers them
to consumers. Try it: "twistd -n logd --data /tmp/logd" in one terminal; in others "echo hello | logd produce greetings"
and "logd consume greetings --from earliest". Without -n it runs in the background (see --pidfile and --logfile of
twistd); SIGTERM stops it cleanly. Settings are read from the file of --config, then from --set, then from the other
options; the last value counts. docs/configuration.md lists them all."""

    optParameters: list[list[Any]] = [  # noqa: N815, RUF012  # Twisted reads it
        *([row.option, None, None, _described(row)] for row in _ROWS if not isinstance(row.kind, Switch | OneOrMore)),
        ["config", "c", None, "A settings file in TOML, for example with the line: retention.ms = 86400000"],
    ]

    optFlags: list[list[Any]] = [  # noqa: N815, RUF012  # Twisted reads it
        [row.option, None, _described(row)] for row in _ROWS if isinstance(row.kind, Switch)
    ]

    compData = Completions(  # noqa: N815  # Twisted reads it
        optActions={"data": CompleteDirs(), "config": CompleteFiles("*.toml")},
        multiUse=["set", *(row.option for row in _ROWS if isinstance(row.kind, OneOrMore))],
    )

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # Twisted has no annotations there
        self["set"] = []
        for row in _ROWS:
            if isinstance(row.kind, OneOrMore):
                self[row.option] = []

    def opt_kafka_listen(self, endpoint: str) -> None:
        self["kafka-listen"].append(endpoint)

    opt_kafka_listen.__doc__ = _described(ROWS["kafka.listen"])

    def opt_kafka_advertise(self, address: str) -> None:
        self["kafka-advertise"].append(address)

    opt_kafka_advertise.__doc__ = _described(ROWS["kafka.advertise"])

    def opt_set(self, assignment: str) -> None:
        """Any setting, as key=value (once for each), for example: --set flush.ms=200 --set topics.create=false"""
        self["set"].append(assignment)

    def opt_version(self) -> None:
        """Display the version and exit."""
        print(f"logd {__version__} ({described()})")
        raise SystemExit(0)

    def postOptions(self) -> None:  # noqa: N802  # Twisted calls it
        """Merge and validate the settings. A UsageError names the key, the value and the allowed values."""
        try:
            sources = [Source("", values_of_environment(self.environ))]
            if self["config"] is not None:
                sources.append(read_toml(self["config"]))
            sources.append(parse_assignments(self["set"]))
            sources.extend(
                Source(f"--{row.option}", {row.name: _parsed(row, self[row.option])})
                for row in _ROWS
                if self[row.option] not in (None, 0, [])
            )
            hosts = self.environ.get(HOSTS_VARIABLE)
            if hosts and not any(name in source.values for source in sources for name in _TREE_SETTINGS):
                data = next((source.values["data"] for source in reversed(sources) if "data" in source.values), "")
                if not _is_own_tree(hosts) or _has_joined(str(data)):
                    sources.append(Source(HOSTS_VARIABLE, {"zookeeper.hosts": hosts}))
                else:  # the address as it is by default, with its origin
                    sources.append(Source(HOSTS_VARIABLE, {"zookeeper.listen": ROWS["zookeeper.listen"].default}))
            self.settings = broker_settings(*sources)
            copies_over_tls = self.settings.replication.replica_tls_authorities is not None
            if (self.alone or self.parent is not None) and not copies_over_tls:
                leave_tls_out(endpoint for _, endpoint in _endpoints(self.settings))
            _check_endpoints(self.settings)
        except ConfigurationError as error:
            raise UsageError(str(error)) from error


def _is_own_tree(hosts: str) -> bool:
    """Return whether ``hosts`` is only this machine's address of the tree that a broker serves by default."""
    host, _, port = hosts.rpartition(":")
    return host in _LOOPBACK and f":{port}:" in str(ROWS["zookeeper.listen"].default)


def _has_joined(data: str) -> bool:
    """Return whether the data directory belongs to a broker that joined a tree and never served its own."""
    return os.path.exists(os.path.join(data, META)) and not os.path.exists(os.path.join(data, COORDINATION))


def _endpoints(settings: BrokerSettings) -> list[tuple[str, str]]:
    """Return the endpoint descriptions of a broker, each after the name of its setting."""
    described = (
        ("listen", settings.listen),
        *(("kafka.listen", endpoint) for endpoint in settings.kafka.endpoints),
        ("legacy.listen", settings.legacy.legacy_listen),
        ("http", settings.http),
        ("zookeeper.listen", settings.zookeeper_listen),
    )
    return [(name, description) for name, description in described if description is not None]


def _check_endpoints(settings: BrokerSettings) -> None:
    """Parse the endpoint descriptions now, as an error later, in the background, would go unnoticed."""
    from twisted.internet import reactor
    from twisted.internet.endpoints import serverFromString

    for name, description in _endpoints(settings):
        try:
            serverFromString(reactor, description)
        except Exception as error:  # an endpoint's parser may raise anything: ValueError, TypeError, OSError, SSL's
            from logd.net.tls import endpoint_problem

            raise ConfigurationError(
                f"{name} = {description!r} is not allowed ({endpoint_problem(error)}); "
                "allowed is a Twisted server endpoint description, such as 'tcp:6667:interface=127.0.0.1'"
            ) from error


def _import_for_kafka() -> None:
    """Import what serves clients of today's Kafka. Without the package for that the start says what is missing."""
    from logd.protocol.kafka.package import require_package

    with suppress(MissingPackage):
        require_package("kafka.listen")
        import logd.broker.kafka.groups.coordinator
        import logd.broker.kafka.session
        import logd.protocol.kafka.conversation  # noqa: F401


def makeService(options: Options) -> IService:  # noqa: N802  # twistd calls it
    """Return the broker's service, with its HTTP pages if configured. Starts nothing, as twistd forks later."""
    from twisted.internet import reactor

    gc.disable()  # nothing of what is imported will ever be garbage
    try:
        from logd.broker.service import BrokerService
        from logd.net.allocator import keep_buffers
        from logd.net.monotonic import use_monotonic_time

        if options.settings.kafka.endpoints:
            _import_for_kafka()
        # Objects loaded so far stay: the garbage collector need not scan them again and again.
        gc.freeze()
    finally:
        gc.enable()
    use_monotonic_time(reactor)
    keep_buffers()
    settings = options.settings
    broker = BrokerService(reactor, settings, foreground=options.foreground)
    services: list[Service] = [broker]
    if settings.http is not None:
        from logd.broker.listening.ports import check_open
        from logd.console_tap import console
        from logd.net.server_tls import reactor_for_listeners
        from logd.schema_registry.registry import OpenedRegistry
        from logd.web.service import PagesService

        schemas = OpenedRegistry(broker.coordination, reactor).get if settings.schema_registry_enabled else None
        check = partial(check_open, settings.security, "http", settings.http)
        resource, sampling = console(reactor, broker, settings, schemas)
        security = settings.security
        required = security.security_client_certificates == "required"
        pages = PagesService(
            reactor_for_listeners(reactor, security.security_client_authorities, required),
            settings.http,
            broker.health,
            broker.registry,
            options.foreground,
            schemas,
            check=check,
            guards=lambda: broker.broker,
            console=resource,
            principal=security.security_client_principal,
        )
        services.append(sampling)
        # The pages start first, so that a port in use is found before the data directory is touched.
        services.insert(0, pages)
    if settings.kafka.kafka_audit_enabled and settings.kafka.endpoints:
        from logd.audit_tap import KafkaAudit

        services.append(KafkaAudit(reactor, broker, settings))
    supervisor = notify_socket(options.environ)
    if supervisor is not None:
        from logd.supervision_tap import BrokerSupervision

        services.insert(0, BrokerSupervision(reactor, broker, settings, supervisor, options.environ))
    if services == [broker]:
        return broker
    together = MultiService()
    for each in services:
        each.setServiceParent(together)
    return together
