"""Records of the coordination tree: node metadata, access lists, requests, answers and watch events.

Versions count changes of one node from 0; -1 in a request means any version. Times are milliseconds since the epoch.
A zxid is the number of a change of the tree; each change has a larger one.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from attrs import field, frozen

ANY_VERSION = -1


class Stat(NamedTuple):
    """A node's metadata, in the order of ZooKeeper's protocol."""

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
    """The permissions of an access list."""

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
    """The event of a watch, with ZooKeeper's numbers."""

    #: Not about the node: the connection or the session has changed. Read again.
    SESSION = -1
    CREATED = 1
    DELETED = 2
    CHANGED = 3
    CHILDREN = 4


class SessionState(enum.Enum):
    """The state of a client's session, as subscribers are told."""

    #: Attached to a server. After LOST it is a new session, with another id.
    CONNECTED = "connected"
    #: The connection is gone; the session and its ephemeral nodes may live on, and calls wait or fail.
    SUSPENDED = "suspended"
    #: The session is over (the server said so), and its ephemeral nodes are gone. A new one is opened automatically.
    LOST = "lost"
    #: ``close`` was called.
    CLOSED = "closed"


@frozen
class WatchEvent:
    """The result of a watch. ``state`` matters for EventType.SESSION alone."""

    type: EventType
    path: str
    state: SessionState = SessionState.CONNECTED


# Writes. Each can be a part of a Multi.


@frozen
class Create:
    """Create a node. The name of a ``sequence`` node ends with the parent's ten-digit counter."""

    path: str
    data: bytes = b""
    acl: tuple[Acl, ...] = OPEN_ACL
    ephemeral: bool = False
    sequence: bool = False


@frozen
class Delete:
    """Delete a node that has no children."""

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
    """Demand a node's version, without a change."""

    path: str
    version: int = ANY_VERSION


#: The parts of a Multi.
Operation = Create | Delete | SetData | Check


@frozen
class Multi:
    """Do all of the operations or none."""

    operations: tuple[Operation, ...]


# Reads. ``watch`` leaves a watch that reports the next change, once.


@frozen
class GetData:
    """Read a node's data and Stat."""

    path: str
    watch: bool = False


@frozen
class Exists:
    """Read a node's Stat; the watch is left even if there is no node."""

    path: str
    watch: bool = False


@frozen
class GetChildren:
    """Read the names of a node's children, and its Stat."""

    path: str
    watch: bool = False


@frozen
class GetAcl:
    """Read a node's access list and Stat."""

    path: str


@frozen
class Sync:
    """Wait for every change made before this request."""

    path: str


@frozen
class SetWatches:
    """Leave watches again after a new connection; those whose event came after ``zxid`` fire at once."""

    zxid: int
    data: tuple[str, ...] = ()
    exists: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


@frozen
class AddAuth:
    """Let the connection act as one more user, by ``user:password`` of the scheme digest."""

    credentials: str = field(repr=False)
    path: str = "/"


Write = Create | Delete | SetData | SetAcl | Check | Multi
Read = GetData | Exists | GetChildren | GetAcl | Sync | SetWatches
Request = Write | Read
#: A client's request to a server; a tree itself is not asked for authentication.
ClientCall = Request | AddAuth


# Answers with more than one value.


class Created(NamedTuple):
    """The answer to Create: the path with its sequence number, and the new node's Stat."""

    path: str
    stat: Stat


class NodeData(NamedTuple):
    """The answer to GetData."""

    data: bytes
    stat: Stat


class Children(NamedTuple):
    """The answer to GetChildren; names in no order."""

    names: tuple[str, ...]
    stat: Stat


class NodeAcl(NamedTuple):
    """The answer to GetAcl."""

    acl: tuple[Acl, ...]
    stat: Stat


@frozen
class Identity:
    """An identity that access lists can name: ("world", "anyone"), ("digest", "user:hash"), ("ip", address)."""

    scheme: str
    id: str = field(repr=False)
