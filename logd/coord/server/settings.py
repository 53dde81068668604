"""Settings of a coordination server: limits on its clients, and the snapshot interval."""

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
    """Frozen and validated: raises ConfigurationError for a value that is not allowed.

    Sessions have ZooKeeper's defaults, two to twenty of its ticks of two seconds: a client asks for a timeout, and gets
    the nearest allowed one.
    """

    shortest_session_ms: int = field(default=4_000, validator=_at_least(1))
    longest_session_ms: int = field(default=40_000, validator=_at_least(1))
    #: The largest request, in bytes: ZooKeeper's jute.maxbuffer. A larger one ends its connection. The resulting change
    #: is not much larger, and must stay below LARGEST_CHANGE_BYTES of change_file.py.
    frame_bytes: int = field(default=1 << 20, validator=_between(1 << 10, 16 << 20))
    #: Bytes of incomplete requests over all connections; above it the largest request's connection is closed.
    frames_bytes: int = field(default=64 << 20, validator=_at_least(1 << 10))
    #: Connections at a time. At the limit, the oldest one without a session is closed, or else the new one.
    connections: int = field(default=2_000, validator=_at_least(1))
    #: Connections from one address at a time; a further one is closed, so that one host cannot keep out all others.
    address_connections: int = field(default=1_900, validator=_at_least(1))
    #: Seconds in which a connection must ask for its session.
    handshake: float = field(default=10.0, validator=_at_least(0))
    #: Pending requests of a connection; at the limit the connection is not read until some are answered.
    pending: int = field(default=1_000, validator=_at_least(1))
    #: Bytes of pending requests of all connections, 1 KiB for each included; above it, connections with a pending
    #: answer are not read.
    pending_bytes: int = field(default=64 << 20, validator=_at_least(1))
    #: The approximate bytes of all watches, each of which takes 300 and its path; at the limit no more can be left.
    watches_bytes: int = field(default=WATCHES_BYTES, validator=_at_least(1))
    #: Nodes of the tree, and their approximate bytes: each takes 600, its path, data and access list. At the limit no
    #: more can be created. Deletions, and changes to few bytes, are never refused.
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
