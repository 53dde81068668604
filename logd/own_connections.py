"""Connections of a broker to brokers whose native listeners have TLS: to itself without it, to the others with it."""

from __future__ import annotations

import re
import socket
from typing import Any

from attrs import define
from twisted.internet.defer import Deferred, succeed
from twisted.internet.endpoints import HostnameEndpoint, wrapClientTLS
from twisted.internet.interfaces import IStreamClientEndpoint
from twisted.internet.protocol import Factory
from zope.interface import implementer

from logd.clientcore.addresses import Address, split_endpoint
from logd.config import BrokerSettings
from logd.net.connection import BrokerConnection
from logd.net.server import ConnectionFactory

#: Seconds.
_CONNECT_TIMEOUT = 10.0
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----.+?-----END CERTIFICATE-----", re.S)


@implementer(IStreamClientEndpoint)
@define(eq=False)
class PairedEndpoint:
    """Connects to a server of this process by a pair of sockets, which nobody else can reach."""

    _reactor: Any
    #: The factory of the server.
    _server: Factory

    def connect(self, protocolFactory: Any) -> Deferred[Any]:  # noqa: N803  # Twisted's name
        """See IStreamClientEndpoint."""
        client = protocolFactory.buildProtocol(None)
        near, far = socket.socketpair()
        with near, far:  # the reactor makes copies
            self._reactor.adoptStreamConnection(far.fileno(), socket.AF_UNIX, self._server)
            self._reactor.adoptStreamConnection(near.fileno(), socket.AF_UNIX, Factory.forProtocol(lambda: client))
        return succeed(client)


@define(eq=False)
class OwnConnections:
    """Opens the connections of a broker with ``listen = ssl:...``; of the extra tls, as that listener is."""

    _reactor: Any
    _settings: BrokerSettings
    #: The address that clients are told of this broker, and the factory of its connections.
    _advertised: Address
    _factory: ConnectionFactory

    def connect(self, address: Address) -> Deferred[Any]:
        """Connect to a broker. Other brokers need certificates that ``_trusted`` vouches for, with their hosts' names.

        Fails with CannotConnect.
        """
        if address == self._advertised or not isinstance(address, tuple):
            endpoint: IStreamClientEndpoint = PairedEndpoint(self._reactor, self._factory)
        else:
            from twisted.internet.ssl import optionsForClientTLS

            plain = HostnameEndpoint(self._reactor, *address, timeout=_CONNECT_TIMEOUT)
            endpoint = wrapClientTLS(optionsForClientTLS(address[0], trustRoot=self._trusted()), plain)
        return BrokerConnection.connect(self._reactor, endpoint)

    def _trusted(self) -> Any:
        """Return the authorities of clients' certificates if there are any, else this broker's own certificates."""
        from twisted.internet.ssl import Certificate, trustRootFromCertificates

        arguments = dict(part.split("=", 1) for part in split_endpoint(self._settings.listen) if "=" in part)
        own = (arguments.get("certKey") or arguments.get("privateKey") or "").replace("\\:", ":")
        with open(self._settings.security.security_client_authorities or own, "rb") as file:
            found = _CERTIFICATE.findall(file.read())
        return trustRootFromCertificates([Certificate.loadPEM(each) for each in found])
