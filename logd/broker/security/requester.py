"""Whom the requests of a connection come from."""

from __future__ import annotations

from attrs import define

from logd.security.principals import ANONYMOUS


@define
class Requester:
    """The client of one connection, or of one HTTP request. Authentication changes it."""

    #: The name of the user.
    principal: str = ANONYMOUS
    #: The client's host, without its port.
    address: str = ""
    authenticated: bool = False
    #: The mechanism of its authentication, such as ``SCRAM-SHA-256``; "" for none.
    mechanism: str = ""
    #: The stored credential that it has proved; if that changes, the connection is cut off. None for a certificate.
    credential: object = None

    @classmethod
    def at(cls, peer: str) -> Requester:
        """Return the requester of a connection that has not authenticated; ``peer`` is HOST:PORT."""
        return cls(address=peer.rpartition(":")[0])

    def __str__(self) -> str:
        """Return the text for log lines."""
        return f"{self.principal} at {self.address}" if self.address else self.principal
