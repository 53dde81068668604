"""Counts the open connections in total and by address, and admits no more than allowed (Kafka's connection quotas)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from attrs import define, field, frozen
from twisted.logger import Logger


class Admitted(Protocol):
    """The members of a server's connection that are used here."""

    peer: str

    @property
    def address(self) -> str:
        """The peer's host; empty if there is none, as for a local socket."""
        ...

    @property
    def replaceable(self) -> bool:
        """True if the connection may be closed to admit another one."""
        ...

    def close(self, reason: str = "", *, drain: bool = True) -> None:
        """Close and log the reason, if any; without ``drain`` at once."""
        ...


class AdmissionCounters(Protocol):
    """The counter of a server that is used here."""

    connections_refused: int


@frozen
class AdmissionLimits:
    """Limits on the number of open connections, with the names of their settings; None for no limit."""

    connections: int | None = None
    of_one_address: int | None = None
    connections_name: str = "connections.max"
    of_one_address_name: str = "connections.address.max"
    #: True if a connection of an address that has as many as it may takes the place of a replaceable one from there.
    replaced_by_address: bool = False


C = TypeVar("C", bound=Admitted)


@define(eq=False)
class OpenConnections(Generic[C]):
    """The open connections of one server, in the order of their arrival."""

    _log = Logger()

    _limits: AdmissionLimits
    _counters: AdmissionCounters
    #: The address of each connection.
    _open: dict[C, str] = field(factory=dict, init=False)
    _by_address: dict[str, int] = field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[C]:
        return iter(self._open)

    def admit(self, connection: C) -> bool:
        """Count a new connection. Return False if there are too many: it is refused, and the caller has to close it.

        At the limit on all connections, the oldest replaceable connection is closed instead, if there is one.
        """
        limits, address = self._limits, connection.address
        from_there = self._by_address.get(address, 0)
        if address and limits.of_one_address is not None and from_there >= limits.of_one_address:
            reason = f"{limits.of_one_address_name} = {limits.of_one_address} connections from its address are open"
            if not self._make_room(connection, reason, address if limits.replaced_by_address else None):
                return False
        if limits.connections is not None and len(self._open) >= limits.connections:
            reason = f"{limits.connections_name} = {limits.connections} connections are open"
            if not self._make_room(connection, reason, ""):
                return False
        self._open[connection] = address
        self._by_address[address] = self._by_address.get(address, 0) + 1
        return True

    def leave(self, connection: C) -> None:
        """Stop counting a connection that is lost or about to be closed. Does nothing for a refused one."""
        address = self._open.pop(connection, None)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def _make_room(self, connection: C, reason: str, address: str | None) -> bool:
        """Close the oldest replaceable connection of an address; return whether there is one.

        ``address`` is "" for that of any, None for none.
        """
        replaced = None
        if address is not None:
            replaced = next(
                (each for each, its in self._open.items() if each.replaceable and address in ("", its)), None
            )
        self._refuse(replaced or connection, reason)
        if replaced is None:
            return False
        replaced.close(drain=False)
        self.leave(replaced)
        return True

    def _refuse(self, connection: Admitted, reason: str) -> None:
        # Logged at the first, second, fourth, eighth ... refusal, so that a flood does not fill the disk.
        self._counters.connections_refused += 1
        refused = self._counters.connections_refused
        if refused & (refused - 1) == 0:
            self._log.warn(
                "refused the connection of {peer}: {reason} ({refused} refused so far)",
                peer=connection.peer,
                reason=reason,
                refused=refused,
            )
