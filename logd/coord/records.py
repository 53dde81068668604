"""The coordination tree's words: what a node says of itself, who may touch it, what can be asked, what watches tell.

Versions count changes of one node from 0; -1 in a request means any version. Times are milliseconds since the epoch.
A zxid is the number of a change of the tree; each change has a larger one.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from attrs import field, frozen

ANY_VERSION = -1


class Stat(NamedTuple):
    """What a node says of itself, in the order of ZooKeeper's protocol."""

    created_zxid: int
    modified_zxid: int
    created_ms: int
    modified_ms: int
    version: int
    #: Counts changes of the list of children.
    children_version: int
    acl_version: int
    #: The session that the node ends with, 0 for a node that stays.
    ephemeral_owner: int
    data_length: int
    children_count: int
    #: The last change of the list of children.
    children_zxid: int


class Permission(enum.IntFlag):
    """What an access list grants."""

    READ = 1
    WRITE = 2
    CREATE = 4
    DELETE = 8
    ADMIN = 16
    ALL = 31


class Acl(NamedTuple):
    """One row of a node's access list: ``permissions`` (Permission) for ``identity`` under ``scheme``."""

    permissions: int
    scheme: str
    identity: str


#: Everybody may do everything.
OPEN_ACL: tuple[Acl, ...] = (Acl(Permission.ALL, "world", "anyone"),)


class EventType(enum.IntEnum):
    """What a watch tells, with ZooKeeper's numbers."""

    #: Nothing about the node: the connection or the session is not what it was. Read again.
    SESSION = -1
    CREATED = 1
    DELETED = 2
    CHANGED = 3
    CHILDREN = 4


class SessionState(enum.Enum):
    """How a client's session is; what subscribers are told."""

    #: Attached to a server. After LOST it is another session, with another id.
    CONNECTED = "connected"
    #: The connection is gone; the session and its ephemeral nodes may live on, and calls wait or fail.
    SUSPENDED = "suspended"
    #: The session is over (the server said so): its ephemeral nodes are gone. A new one is asked for by itself.
    LOST = "lost"
    #: ``close`` was called.
    CLOSED = "closed"


@frozen
class WatchEvent:
    """What a watch fires with. ``state`` matters for EventType.SESSION alone."""

    type: EventType
    path: str
    state: SessionState = SessionState.CONNECTED


# What changes the tree. Each can be a part of a Multi.


@frozen
class Create:
    """Make a node. A ``sequence`` node's name gets the parent's ten-digit counter behind it."""

    path: str
    data: bytes = b""
    acl: tuple[Acl, ...] = OPEN_ACL
    ephemeral: bool = False
    sequence: bool = False


@frozen
class Delete:
    """Remove a node that has no children."""

    path: str
    version: int = ANY_VERSION


@frozen
class SetData:
    """Replace a node's data."""

    path: str
    data: bytes
    version: int = ANY_VERSION


@frozen
class SetAcl:
    """Replace a node's access list; ``version`` is that of the list."""

    path: str
    acl: tuple[Acl, ...]
    version: int = ANY_VERSION


@frozen
class Check:
    """Demand a node's version; changes nothing."""

    path: str
    version: int = ANY_VERSION


#: What a Multi is made of.
Operation = Create | Delete | SetData | Check


@frozen
class Multi:
    """All of these or none."""

    operations: tuple[Operation, ...]


# What reads it. ``watch`` leaves a watch that tells of the next change, once.


@frozen
class GetData:
    """A node's data and Stat."""

    path: str
    watch: bool = False


@frozen
class Exists:
    """A node's Stat; the watch is left also where there is no node."""

    path: str
    watch: bool = False


@frozen
class GetChildren:
    """The names of a node's children, and its Stat."""

    path: str
    watch: bool = False


@frozen
class GetAcl:
    """A node's access list and Stat."""

    path: str


@frozen
class Sync:
    """Be answered after every change before it."""

    path: str


@frozen
class SetWatches:
    """Leave watches again after a new connection; those whose event came after ``zxid`` fire at once."""

    zxid: int
    data: tuple[str, ...] = ()
    exists: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


Write = Create | Delete | SetData | SetAcl | Check | Multi
Read = GetData | Exists | GetChildren | GetAcl | Sync | SetWatches
Request = Write | Read


# Answers that are more than one value.


class Created(NamedTuple):
    """Answer to Create: the path with its sequence number, and the new node's Stat."""

    path: str
    stat: Stat


class NodeData(NamedTuple):
    """Answer to GetData."""

    data: bytes
    stat: Stat


class Children(NamedTuple):
    """Answer to GetChildren; names in no order."""

    names: tuple[str, ...]
    stat: Stat


class NodeAcl(NamedTuple):
    """Answer to GetAcl."""

    acl: tuple[Acl, ...]
    stat: Stat


@frozen
class Identity:
    """Somebody whom access lists can name: ("world", "anyone"), ("digest", "user:hash"), ("ip", address)."""

    scheme: str
    id: str = field(repr=False)
