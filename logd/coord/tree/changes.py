"""Changes of the tree as they are journalled: fully decided, so that replaying them always succeeds.

A change is one step of the tree: its number, its time, its session and its effects, in order. It does not depend on a
clock, an access list or a session at the time of the replay.
"""

from __future__ import annotations

from attrs import field, frozen

from logd.coord.records import Acl


@frozen
class NodeMade:
    """A node was made; ``path`` has its sequence number, ``acl`` is resolved. Its owner is the change's session."""

    path: str
    data: bytes
    acl: tuple[Acl, ...]
    ephemeral: bool


@frozen
class NodeRemoved:
    """A node was removed."""

    path: str


@frozen
class DataReplaced:
    """A node's data were replaced, and its version went up by one."""

    path: str
    data: bytes


@frozen
class AclReplaced:
    """A node's access list was replaced, and the list's version went up by one."""

    path: str
    acl: tuple[Acl, ...]


@frozen
class SessionOpened:
    """The change's session began. ``password`` (16 bytes) lets a new connection attach to it."""

    timeout_ms: int
    password: bytes = field(repr=False)


@frozen
class SessionClosed:
    """The change's session ended, by its client or by expiry: its ephemeral nodes were removed with it."""


Effect = NodeMade | NodeRemoved | DataReplaced | AclReplaced | SessionOpened | SessionClosed


@frozen
class Change:
    """One step of the tree. A Multi has several effects; everything else has one."""

    #: The number of the previous change, plus one.
    zxid: int
    #: The time in milliseconds since the epoch.
    time_ms: int
    session_id: int
    effects: tuple[Effect, ...]
