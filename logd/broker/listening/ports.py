"""Opens the ports of a broker: that of native clients, and those of clients of today's Kafka."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

from attrs import define, field
from twisted.internet.endpoints import serverFromString
from twisted.internet.interfaces import IListeningPort
from twisted.internet.protocol import Factory
from twisted.logger import Logger
from twisted.python.failure import Failure

from logd.broker.listening.addresses import Address
from logd.broker.resources import Listener
from logd.config import BrokerSettings, parse_address
from logd.config.security import SecuritySettings
from logd.errors import ConfigurationError
from logd.net.server_tls import reactor_for_listeners

#: The listen backlog. Twisted's default is 50; a client beyond the backlog retries only after a second.
BACKLOG = 1024
#: Hosts that stand for every address of a machine.
_ANY = ("0.0.0.0", "::", "")


@define(eq=False)
class BrokerPorts:
    """Opens the ports that the settings of a broker name. See ``BrokerResources.listen``."""

    _log = Logger()

    _reactor: Any
    _settings: BrokerSettings
    #: The host that native clients are told.
    _host: str = field(default="127.0.0.1", init=False)

    def listen(self, factory: Factory, setting: str, place: int) -> Listener:
        """Listen at the endpoint of a setting. Raises ConfigurationError."""
        settings = self._settings
        endpoint = _endpoint(settings, setting, place)
        outcome: list[Any] = []
        # TCP and UNIX endpoints listen before they return, so a port in use makes the start fail here.
        security = settings.security
        required = security.security_client_certificates == "required"
        reactor = reactor_for_listeners(self._reactor, security.security_client_authorities, required)
        serverFromString(reactor, endpoint).listen(factory).addBoth(outcome.append)
        if outcome and isinstance(outcome[0], Failure) and outcome[0].check(ConfigurationError):
            outcome[0].raiseException()
        if outcome and isinstance(outcome[0], Failure):
            raise ConfigurationError(
                f"cannot listen on {endpoint!r}: {outcome[0].getErrorMessage().rstrip('.')}; "
                f"is another broker running there? Give another --{setting.replace('.', '-')}"
            )
        port: IListeningPort | None = outcome[0] if outcome else None
        address: Any = port.getHost() if port is not None else None
        host, number = getattr(address, "host", "127.0.0.1"), getattr(address, "port", 0)
        try:
            check_open(settings.security, setting, endpoint, host)
            if setting == "listen":
                advertised = self._advertised(host, number)
            elif setting == "legacy.listen":
                advertised = self._legacy_address(host, number)
            else:
                advertised = self._kafka_address(endpoint, address, place)
        except ConfigurationError:
            # No client was accepted: the reactor has not run since.
            if port is not None:
                port.stopListening()
            raise
        listening = getattr(port, "socket", None)
        if listening is not None and "backlog=" not in endpoint:
            listening.listen(BACKLOG)
        return Listener(advertised, lambda: None if port is None else port.stopListening())

    def _advertised(self, host: str, number: int) -> Address:
        """Return the address that native clients are told."""
        if self._settings.advertise is not None:
            host, number = parse_address(self._settings.advertise)
        elif host in _ANY:
            self._log.warn("clients are told to connect to 127.0.0.1: set --advertise HOST:PORT for other machines")
            host = "127.0.0.1"
        self._host = host
        return host, number

    def _legacy_address(self, host: str, number: int) -> Address:
        """Return the address that clients of Kafka 0.7 find in ZooKeeper."""
        if self._settings.legacy.legacy_advertise is not None:
            return parse_address(self._settings.legacy.legacy_advertise)
        return self._host if host in _ANY else host, number

    def _kafka_address(self, endpoint: str, address: Any, place: int) -> Address:
        """Return the address by which other brokers' clients reach a listener for clients of today's Kafka."""
        kafka = self._settings.kafka
        host, number = getattr(address, "host", None), getattr(address, "port", None)
        if host is None or number is None:
            raise ConfigurationError(
                f"kafka.listen = {endpoint!r} is not allowed, as Kafka's clients connect by TCP; allowed is for "
                "example 'tcp:9092:interface=127.0.0.1'"
            )
        advertised = kafka.advertised[place] or (self._host if host in _ANY else host, number)
        self._log.info(
            "clients of today's Kafka are served at {host}:{port}; clients of other brokers are told {advertised}",
            host=host,
            port=number,
            advertised=f"{advertised[0]}:{advertised[1]}",
        )
        return advertised


def check_open(security: SecuritySettings, setting: str, endpoint: str, host: str) -> None:
    """Raise ConfigurationError for an open listener that other machines can reach, unless that is wanted."""
    if security.security_required or security.open_to_network or is_loopback(host):
        return
    raise ConfigurationError(
        f"{setting} = {endpoint!r} is open to other machines, and users and access rules are not demanded: whoever can "
        "connect could read, write and delete everything. Demand them (security.required = true), let it listen on "
        "this machine alone (interface=127.0.0.1), or, on a network that you trust, give --open-to-network"
    )


def check_tree_open(open_to_network: bool, own: tuple[str, ...], what: str, host: str) -> bool:
    """Return whether the tree served at ``host`` has to demand credentials, which other machines can reach.

    ``own``: the digests of the brokers' credentials; ``what``: the setting or option with its value. Raises
    ConfigurationError if there are no credentials to demand, unless that is wanted.
    """
    if open_to_network or is_loopback(host):
        return False
    if own:
        return True
    raise ConfigurationError(
        f"{what} is open to other machines, and there are no credentials that the coordination tree could demand: "
        "whoever can connect could make brokers delete messages. Set credentials (zookeeper.digest.file, or "
        "LOGD_ZOOKEEPER_DIGEST_FILE in the environment), let it listen on this machine alone (interface=127.0.0.1), "
        "or, on a network that you trust, give --open-to-network"
    )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can connect to a socket that is bound to ``host``."""
    return host == "localhost" or (host not in _ANY and ip_address(host.partition("%")[0]).is_loopback)


def _endpoint(settings: BrokerSettings, setting: str, place: int) -> str:
    if setting == "listen":
        return settings.listen
    if setting == "legacy.listen":
        assert settings.legacy.legacy_listen is not None
        return settings.legacy.legacy_listen
    return settings.kafka.endpoints[place]
