"""What a coordination server allows its clients, and when it writes snapshots."""

from __future__ import annotations

from typing import Any

from attrs import Attribute, field, frozen

from logd.coord.tree.store import NODES, NODES_BYTES
from logd.coord.tree.watches import WATCHES_BYTES
from logd.errors import ConfigurationError


def _at_least(least: int) -> Any:
    def check(_instance: object, attribute: Attribute[Any], value: Any) -> None:
        if value < least:
            raise ConfigurationError(f"{attribute.name} = {value!r} is not allowed; allowed is {least} or more")

    return check


def _between(least: int, most: int) -> Any:
    def check(_instance: object, attribute: Attribute[Any], value: Any) -> None:
        if not least <= value <= most:
            raise ConfigurationError(f"{attribute.name} = {value!r} is not allowed; allowed is {least} to {most}")

    return check


@frozen(kw_only=True)
class CoordinationServerSettings:
    """Frozen and checked: raises ConfigurationError for a value that is not allowed.

    Sessions have ZooKeeper's defaults, two to twenty of its ticks of two seconds: clients ask, and get what is nearest.
    """

    shortest_session_ms: int = field(default=4_000, validator=_at_least(1))
    longest_session_ms: int = field(default=40_000, validator=_at_least(1))
    #: The largest request, in bytes: ZooKeeper's jute.maxbuffer. A larger one ends its connection. The change that is
    #: made of a request is not much larger, and has to stay below changefile.py's LARGEST_CHANGE_BYTES.
    frame_bytes: int = field(default=1 << 20, validator=_between(1 << 10, 16 << 20))
    #: What is here of incomplete requests over all connections; above it the largest goes, with its connection.
    frames_bytes: int = field(default=64 << 20, validator=_at_least(1 << 10))
    #: Connections at a time. When there are as many, the oldest one without a session goes, or the new one.
    connections: int = field(default=2_000, validator=_at_least(1))
    #: Connections from one address at a time; a further one goes, so that one host cannot keep out all the others.
    address_connections: int = field(default=1_900, validator=_at_least(1))
    #: Seconds that a connection has for asking for its session.
    handshake: float = field(default=10.0, validator=_at_least(0))
    #: Requests of a connection that may wait for their answer; then it is not read until some are answered.
    pending: int = field(default=1_000, validator=_at_least(1))
    #: Bytes of requests of all connections that may wait for their answer, 1 KiB for each included; above it, whoever
    #: is owed one is not read.
    pending_bytes: int = field(default=64 << 20, validator=_at_least(1))
    #: About the bytes that watches may take, of which each takes 300 and its path; then no more can be left.
    watches_bytes: int = field(default=WATCHES_BYTES, validator=_at_least(1))
    #: Nodes of the tree, and about the bytes that they may take, of which each takes 600, its path, data and access
    #: list; then no more can be made. Removals, and changes to few bytes, are never refused.
    nodes: int = field(default=NODES, validator=_at_least(1))
    nodes_bytes: int = field(default=NODES_BYTES, validator=_at_least(1))
    #: A snapshot is written after this many bytes of changes, or as many as the last snapshot had if that is more.
    snapshot_bytes: int = field(default=8 << 20, validator=_at_least(1))

    def __attrs_post_init__(self) -> None:
        if self.shortest_session_ms > self.longest_session_ms:
            raise ConfigurationError(
                f"shortest_session_ms = {self.shortest_session_ms} is not allowed; "
                f"allowed is at most longest_session_ms = {self.longest_session_ms}"
            )
