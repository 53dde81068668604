"""The addresses of the live brokers, for native clients and for those of today's Kafka.

A broker may listen for Kafka's clients at several places; the clients of one are told the addresses of that place.
"""

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
class BrokerAddresses:
    """The addresses and racks of all registered brokers by their ids, as last seen in the coordination tree."""

    #: Returns those for native clients.
    native: Callable[[], Mapping[int, Address]] = dict
    #: Returns those for clients of today's Kafka: of each broker that listens for them, by place.
    kafka: Callable[[], Mapping[int, Sequence[Address]]] = dict
    #: Returns the rack of each broker that names one.
    racks: Callable[[], Mapping[int, str]] = dict
    #: Those for clients of today's Kafka of this broker itself, by place.
    own_kafka: tuple[Address, ...] = ()

    def for_kafka(self, place: int) -> dict[int, Address]:
        """Return the address of each broker that listens for Kafka's clients at this place."""
        brokers = sorted(self.kafka().items())
        return {number: addresses[place] for number, addresses in brokers if place < len(addresses)}
