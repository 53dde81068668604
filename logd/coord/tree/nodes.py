"""One node of the tree: an immutable record, replaced whole when it changes."""

from __future__ import annotations

from typing import NamedTuple

from logd.coord.records import OPEN_ACL, Acl, Permission, Stat


class Node(NamedTuple):
    """A node's record. Its children are known from their paths, so that a child costs its parent no copy."""

    data: bytes = b""
    acl: tuple[Acl, ...] = OPEN_ACL
    created_zxid: int = 0
    modified_zxid: int = 0
    created_ms: int = 0
    modified_ms: int = 0
    version: int = 0
    acl_version: int = 0
    #: The session that the node ends with, 0 for a persistent node.
    ephemeral_owner: int = 0
    #: The number of children ever created: the number of the next sequence node.
    children_made: int = 0
    #: The last change of the list of children.
    children_zxid: int = 0


#: Versions are int32 on the wire and on disk. No client needs to tell a version from the one 2^31 changes before it.
_VERSIONS = 1 << 31


def next_version(version: int) -> int:
    """Return the version after this one."""
    return (version + 1) % _VERSIONS


def stat_of(node: Node, children: int) -> Stat:
    """Return a node's Stat, given its number of children.

    As in ZooKeeper's DataNode.copyStat: the tree counts creations of children, and each missing child was also a
    deletion, so the list has changed ``2 * made - children`` times.
    """
    return Stat(
        node.created_zxid,
        node.modified_zxid,
        node.created_ms,
        node.modified_ms,
        node.version,
        (2 * node.children_made - children + _VERSIONS) % (2 * _VERSIONS) - _VERSIONS,
        node.acl_version,
        node.ephemeral_owner,
        len(node.data),
        children,
        node.children_zxid,
    )


#: A new tree, as in ZooKeeper 3.9: these nodes were never created, so they do not count as changes of their parents.
FIRST_NODES: dict[str, Node] = {
    "/": Node(),
    "/zookeeper": Node(),
    "/zookeeper/config": Node(acl=(Acl(Permission.READ, "world", "anyone"),), acl_version=-1),
    "/zookeeper/quota": Node(),
}
