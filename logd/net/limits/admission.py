"""Open connections, counted in all and from each address, and the admission of further ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from attrs import define, field, frozen
from twisted.logger import Logger


class Admitted(Protocol):
    """A connection of any server."""

    peer: str

    @property
    def address(self) -> str:
        """The host that it comes from, empty where there is none, as for a local socket."""
        ...

    @property
    def replaceable(self) -> bool:
        """True where it may be closed to make room for another."""
        ...

    def close(self, reason: str = "", *, drain: bool = True) -> None:
        """Close, and log a reason; without ``drain`` at once."""
        ...


class AdmissionCounters(Protocol):
    """Counters of a server that count refusals among other things."""

    connections_refused: int


@frozen
class AdmissionLimits:
    """Limits on the connections that are open at a time, with the names of their settings; None for no limit."""

    connections: int | None = None
    of_one_address: int | None = None
    connections_name: str = "connections.max"
    of_one_address_name: str = "connections.address.max"


C = TypeVar("C", bound=Admitted)


@define(eq=False)
class OpenConnections(Generic[C]):
    """The connections of one server, in the order in which they came."""

    _log = Logger()

    _limits: AdmissionLimits
    _counters: AdmissionCounters
    #: The address of each.
    _open: dict[C, str] = field(factory=dict, init=False)
    _by_address: dict[str, int] = field(factory=dict, init=False)

    def __len__(self) -> int:
        return len(self._open)

    def __iter__(self) -> Iterator[C]:
        return iter(self._open)

    def admit(self, connection: C) -> bool:
        """Count a new connection. False where there are too many: it is refused, and has to be closed.

        Where there are too many in all, the oldest that is replaceable is closed instead.
        """
        limits, address = self._limits, connection.address
        from_there = self._by_address.get(address, 0)
        if address and limits.of_one_address is not None and from_there >= limits.of_one_address:
            self._refuse(connection, f"{limits.of_one_address_name} = {limits.of_one_address} of its address are open")
            return False
        if limits.connections is not None and len(self._open) >= limits.connections:
            replaced = next((each for each in self._open if each.replaceable), None)
            self._refuse(replaced or connection, f"{limits.connections_name} = {limits.connections} are open")
            if replaced is None:
                return False
            replaced.close(drain=False)
            self.leave(replaced)
        self._open[connection] = address
        self._by_address[address] = self._by_address.get(address, 0) + 1
        return True

    def leave(self, connection: C) -> None:
        """The connection is gone, or will be at once. Nothing for one that was refused."""
        address = self._open.pop(connection, None)
        if address is not None:
            self._by_address[address] -= 1
            if not self._by_address[address]:
                del self._by_address[address]

    def _refuse(self, connection: Admitted, reason: str) -> None:
        # At the first, second, fourth, eighth ...: a flood must not fill the disk with log lines.
        self._counters.connections_refused += 1
        refused = self._counters.connections_refused
        if refused & (refused - 1) == 0:
            self._log.warn(
                "refused the connection of {peer}: {reason} ({refused} refused so far)",
                peer=connection.peer,
                reason=reason,
                refused=refused,
            )
