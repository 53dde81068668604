"""The access lists of the tree's nodes: which clients may read and change a path, wherever brokers have credentials.

Only brokers write to the nodes of brokers, topics, leaders, rules and schemas, which everybody may read; what proves
users to be themselves, and the secret of the brokers, is for brokers alone. The nodes of a consumer group are open, or
belong to the brokers and the users that a broker has prepared the group for.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable

from attrs import define, field, frozen

from logd.coord import paths
from logd.coord.records import OPEN_ACL, Acl, Permission

ANYONE = ("world", "anyone")
#: All permissions for the creator alone.
PRIVATE_ACL = (Acl(Permission.ALL, "auth", ""),)
#: All permissions for the creator, and reading for everybody.
READ_BY_ALL = Acl(Permission.READ, *ANYONE)
OWNED_ACL = (Acl(Permission.ALL, "auth", ""), READ_BY_ALL)
#: The permissions to change a node or its children.
_CHANGING = Permission.WRITE | Permission.CREATE | Permission.DELETE | Permission.ADMIN


class Audience(enum.Enum):
    """The clients that a node is meant for, where the tree is protected."""

    #: Brokers write, everybody reads.
    BROKERS = "brokers write, all read"
    #: Brokers alone.
    SECRET = "brokers alone"
    #: A part of a group: brokers, and the users that it was prepared for.
    GROUP = "brokers and the group's users"


def audience_of(path: str) -> Audience | None:
    """Return the kind of a node, None for a node that is none of logd's."""
    if _is_at(path, *paths.PRIVATE):
        return Audience.SECRET
    if _is_at(path, paths.CONSUMERS):
        return Audience.GROUP
    return Audience.BROKERS if path == "/" or _is_at(path, *paths.PROTECTED) else None


def _is_at(path: str, *places: str) -> bool:
    return any(path == each or path.startswith(f"{each}/") for each in places)


@define
class AccessLists:
    """The access lists of nodes that one client creates without giving one."""

    #: The client's own ids of scheme ``digest``, by which its nodes belong to it; empty: they are open to everybody.
    own: tuple[str, ...] = ()
    #: The list of nodes below a group's; None: as those of other nodes.
    groups: tuple[Acl, ...] | None = field(default=None, repr=False)

    def of(self, path: str) -> tuple[Acl, ...]:
        """Return the list of a new node."""
        kind = audience_of(path)
        if kind is Audience.GROUP and self.groups is not None and path != paths.CONSUMERS:
            return (*self.groups, READ_BY_ALL) if paths.is_told_to_all(path) else self.groups
        if not self.own:
            return OPEN_ACL
        return PRIVATE_ACL if kind is Audience.SECRET else OWNED_ACL


class Protection(enum.Enum):
    """The protection of a node, as its access list has it."""

    PROTECTED = "protected"
    #: A secret, or a part of a group, that everybody may read.
    READABLE = "readable by all"
    #: Everybody may change it, or its children.
    OPEN = "open"
    #: Somebody else may change it, or these credentials may not.
    FOREIGN = "belongs to others"


@frozen
class BrokerAccess:
    """Tells what access lists protect, and makes them, for brokers whose ids of scheme ``digest`` are ``own``."""

    own: tuple[str, ...]

    def rows(self) -> tuple[Acl, ...]:
        """Return the rows that give everything to brokers."""
        return tuple(Acl(Permission.ALL, "digest", each) for each in self.own)

    def state(self, kind: Audience, acl: Iterable[Acl]) -> Protection:
        """Return how far a list protects a node of this kind."""
        whole = list(acl)
        granted = 0
        for row in whole:
            if (row.scheme, row.identity) == ANYONE:
                granted |= row.permissions
        if granted & _CHANGING:
            return Protection.OPEN
        if granted & Permission.READ and kind is not Audience.BROKERS:
            return Protection.READABLE
        missing = set(self.own)
        for row in whole:
            if row.scheme == "digest" and row.identity in missing:
                if row.permissions & Permission.ALL == Permission.ALL:
                    missing.discard(row.identity)
            elif (row.scheme, row.identity) != ANYONE and kind is not Audience.GROUP:
                return Protection.FOREIGN
        return Protection.FOREIGN if missing else Protection.PROTECTED

    def protected(self, kind: Audience, acl: Iterable[Acl]) -> tuple[Acl, ...]:
        """Return the list that protects a node; a group keeps the users in its present list."""
        if kind is Audience.BROKERS:
            return (*self.rows(), READ_BY_ALL)
        if kind is Audience.SECRET:
            return self.rows()
        users = (row for row in acl if row.scheme == "digest" and row.identity not in self.own)
        return (*self.rows(), *users)
