"""The addresses by which clients of today's Kafka reach the brokers: each listener has those of its own place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from attrs import define, frozen

#: The host and the port of a listener.
Address = tuple[str, int]

#: An IPv4 address as a socket of IPv6 sees it.
_MAPPED = "::ffff:"


@frozen
class KafkaListener:
    """One listener of a broker for clients of today's Kafka."""

    #: Its number among the broker's Kafka listeners, from 0 on. Listeners of one place belong together on all brokers.
    place: int = 0
    #: The address that its clients are told; None for the one that each has connected to.
    advertised: Address | None = None

    def address_for(self, transport: Any, otherwise: Address) -> Address:
        """Return this broker's address for the client of a connection; ``otherwise`` if its socket has none."""
        if self.advertised is not None:
            return self.advertised
        reached = transport.getHost()
        host, port = getattr(reached, "host", None), getattr(reached, "port", None)
        if host is None or port is None:
            return otherwise
        return (host.removeprefix(_MAPPED) if "." in host else host), port


@define(eq=False)
class KafkaBrokers:
    """The addresses of all brokers for clients of today's Kafka: of each broker those of its listeners, by place."""

    #: Those of this broker.
    own: tuple[Address, ...] = ()
    #: Returns those of each registered broker, by its id, as last seen.
    registered: Callable[[], Mapping[int, Sequence[Address]]] = dict

    def of_place(self, place: int, broker: int, reached: Address) -> dict[int, Address]:
        """Return the address of each broker, by its id, for a client that has reached ``broker`` at ``reached``.

        A broker without a listener of this place is left out: the client cannot reach it.
        """
        registered = sorted(self.registered().items())
        found = {number: addresses[place] for number, addresses in registered if place < len(addresses)}
        return {**found, broker: reached}
