"""The addresses of the live brokers, for native clients and for those of today's Kafka."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from attrs import define

Addresses = Mapping[int, tuple[str, int]]


@define(eq=False)
class BrokerAddresses:
    """The (host, port) of each registered broker by its id, as last seen in the coordination tree."""

    #: Of the native listeners.
    native: Callable[[], Addresses] = dict
    #: Of the listeners for clients of today's Kafka: only the brokers that have one.
    kafka: Callable[[], Addresses] = dict
