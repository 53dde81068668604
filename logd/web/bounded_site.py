"""A bound on the connections of the pages: of all clients together, and of one address.

Connections that wait for a request, or have not sent one whole, give way to new ones, the oldest first: so strangers
that open many and ask for nothing keep nobody out.
"""

from __future__ import annotations

from typing import Any

from twisted.internet.address import IPv4Address, IPv6Address
from twisted.internet.interfaces import IProtocolFactory, IProtocolNegotiationFactory
from twisted.protocols.policies import ProtocolWrapper, WrappingFactory
from zope.interface import implementer

from logd.broker.descriptors import PAGE_CONNECTIONS
from logd.net.limits.connection_quotas import AdmissionLimits, OpenConnections
from logd.net.peer_names import peer_name

#: Open connections with the pages of one server, and those of one address among them.
MOST_CONNECTIONS, MOST_OF_ONE_ADDRESS = PAGE_CONNECTIONS, PAGE_CONNECTIONS // 2
LIMITS = AdmissionLimits(
    MOST_CONNECTIONS,
    MOST_OF_ONE_ADDRESS,
    "the bound of the pages",
    "the bound of the pages for one address",
    replaced_by_address=True,
)


class PageConnection(ProtocolWrapper):
    """One connection with a client of the pages. See ``logd.net.limits.connection_quotas.Admitted``."""

    #: Requests that are being answered.
    under_way = 0
    peer = ""
    address = ""

    @property
    def replaceable(self) -> bool:
        """True while nothing is being answered."""
        return not self.under_way

    def makeConnection(self, transport: Any) -> None:  # noqa: N802  # Twisted calls it
        """Admit the connection, or cut it off."""
        client = transport.getPeer()
        self.peer = peer_name(client)
        self.address = client.host if isinstance(client, IPv4Address | IPv6Address) else ""
        factory: Any = self.factory
        super().makeConnection(transport)  # type: ignore[no-untyped-call]  # Twisted has no annotations there
        if not factory.open.admit(self):
            transport.abortConnection()

    def connectionLost(self, reason: Any = None) -> None:  # noqa: N802  # as above
        """Make room."""
        factory: Any = self.factory
        factory.open.leave(self)
        super().connectionLost(reason)  # type: ignore[no-untyped-call]  # as above

    def close(self, reason: str = "", *, drain: bool = True) -> None:
        """Cut the connection off, to make room for another one."""
        transport: Any = self.transport
        transport.abortConnection()


@implementer(IProtocolNegotiationFactory)
class BoundedSite(WrappingFactory):
    """A site with a bound on its connections."""

    noisy = False
    protocol = PageConnection

    def __init__(self, site: IProtocolFactory, limits: AdmissionLimits = LIMITS) -> None:
        super().__init__(site)  # type: ignore[no-untyped-call]  # as above
        self.connections_refused = 0
        self.open: OpenConnections[PageConnection] = OpenConnections(limits, self)

    def acceptableProtocols(self) -> list[bytes]:  # noqa: N802  # as above
        """Return the protocols for clients with TLS that name theirs, as browsers do: others end the handshake."""
        return [b"http/1.1"]
