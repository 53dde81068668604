"""The nodes of a tree and the indexes derived from them: children by parent, ephemeral nodes by session, users."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

from logd.coord import paths
from logd.coord.errors import NoNode, SystemFailure
from logd.coord.records import OPEN_ACL, Acl, Stat
from logd.coord.tree.access import bytes_of
from logd.coord.tree.changes import AclReplaced, DataReplaced, Effect, NodeMade, NodeRemoved, SessionClosed
from logd.coord.tree.nodes import Node, next_version, stat_of
from logd.coord.tree.pathnames import name_of, parent_of

_Key = TypeVar("_Key")

_NOTHING: dict[str, None] = {}

#: The bytes of a node beside its path, data and access list: its record, and entries in three dicts.
_NODE_BYTES = 600
#: The default limits on the number and the bytes of all nodes.
NODES = 1_000_000
NODES_BYTES = 1 << 30
#: Data up to this size may replace others even in a full tree: a position that gains a digit, or a broker's entry.
_SMALL_BYTES = 1 << 10


class NodeStore:
    """Nodes by path. Applies effects that are known to be possible, and can roll back those since ``begin``."""

    def __init__(self, nodes: Mapping[str, Node]) -> None:
        self.nodes: dict[str, Node] = {}
        # Dicts instead of sets, because their order is the same from run to run.
        self._children: dict[str, dict[str, None]] = {}
        self._owned: dict[int, dict[str, None]] = {}
        self._users: dict[str, dict[str, None]] = {}
        self._undo: list[tuple[str, Node | None]] | None = None
        self.data_bytes = 0
        #: The approximate memory of the nodes; and the limits, which deletions ignore.
        self.cost_bytes = 0
        self.limit_nodes = NODES
        self.limit_bytes = NODES_BYTES
        for path, node in nodes.items():
            self._put(path, node)

    def get(self, path: str) -> Node:
        """Return the node of a path; raises NoNode."""
        try:
            return self.nodes[path]
        except KeyError:
            raise NoNode(path=path) from None

    def demand_room(self, path: str, data: bytes, acl: tuple[Acl, ...]) -> None:
        """Raise SystemFailure when there is no room for a node like this (ZooKeeper has no such bound)."""
        if len(self.nodes) >= self.limit_nodes:
            raise SystemFailure(
                f"{path[:200]}: the tree is full: it has {len(self.nodes)} nodes, and {self.limit_nodes} are allowed; "
                "remove some, or allow more",
                path,
            )
        self._demand_bytes(path, _cost(path, data, acl))

    def demand_bytes(self, path: str, data: bytes, acl: tuple[Acl, ...]) -> None:
        """Raise SystemFailure when there is no room for an existing node to grow to this."""
        before = self.nodes[path]
        more = _cost(path, data, acl) - _cost(path, before.data, before.acl)
        if more > 0 and (acl is not before.acl or len(data) > _SMALL_BYTES):
            self._demand_bytes(path, more)

    def _demand_bytes(self, path: str, more: int) -> None:
        if self.cost_bytes + more > self.limit_bytes:
            raise SystemFailure(
                f"{path[:200]}: the tree is full: its nodes take about {self.cost_bytes} bytes, and {self.limit_bytes} "
                "are allowed; remove some, or allow more",
                path,
            )

    def stat(self, path: str) -> Stat:
        """Return a node's Stat; raises KeyError when there is no such node."""
        return stat_of(self.nodes[path], len(self._children.get(path, _NOTHING)))

    def children(self, path: str) -> Mapping[str, None]:
        """Return the names of a node's children, in order of creation. Not to be kept: the mapping changes."""
        return self._children.get(path, _NOTHING)

    def users(self, name: str) -> Mapping[str, None]:
        """Return the paths of the nodes of users of a name, in all clusters. Not to be kept: the mapping changes."""
        return self._users.get(name, _NOTHING)

    def owned(self, session_id: int) -> tuple[str, ...]:
        """Return the paths of a session's ephemeral nodes."""
        return tuple(self._owned.get(session_id, ()))

    def ephemerals(self) -> Mapping[int, Mapping[str, None]]:
        """Return the paths of all ephemeral nodes, by session."""
        return self._owned

    def apply(self, effect: Effect, zxid: int, time_ms: int, session_id: int) -> None:
        """Apply an effect of that change; at the end of a session, remove its nodes."""
        if isinstance(effect, DataReplaced):
            node = self.nodes[effect.path]
            # Written out, in the order of the fields: this is most of the cost of writes, and _replace takes 4 us.
            _, acl, created_zxid, _, created_ms, _, version, *rest = node
            changed = Node(effect.data, acl, created_zxid, zxid, created_ms, time_ms, next_version(version), *rest)
            self._put(effect.path, changed)
        elif isinstance(effect, NodeMade):
            owner = session_id if effect.ephemeral else 0
            self._put(effect.path, Node(effect.data, effect.acl, zxid, zxid, time_ms, time_ms, 0, 0, owner, 0, zxid))
            parent = parent_of(effect.path)
            node = self.nodes[parent]
            self._put(parent, node._replace(children_made=node.children_made + 1, children_zxid=zxid))
        elif isinstance(effect, NodeRemoved):
            self._remove(effect.path, zxid)
        elif isinstance(effect, AclReplaced):
            node = self.nodes[effect.path]
            self._put(effect.path, node._replace(acl=effect.acl, acl_version=next_version(node.acl_version)))
        elif isinstance(effect, SessionClosed):
            for path in self.owned(session_id):
                self._remove(path, zxid)

    def begin(self) -> None:
        """Start recording changes, so that they can be rolled back."""
        self._undo = []

    def commit(self) -> None:
        """Keep the changes since ``begin``."""
        self._undo = None

    def roll_back(self) -> None:
        """Undo the changes since ``begin``."""
        undo, self._undo = self._undo, None
        for path, node in reversed(undo or ()):
            if node is None:
                self._drop(path)
            else:
                self._put(path, node)

    def _remove(self, path: str, zxid: int) -> None:
        self._drop(path)
        parent = parent_of(path)
        self._put(parent, self.nodes[parent]._replace(children_zxid=zxid))

    def _put(self, path: str, node: Node) -> None:
        before = self.nodes.get(path)
        if self._undo is not None:
            self._undo.append((path, before))
        self.nodes[path] = node
        if before is not None:
            more = len(node.data) - len(before.data)
            self.data_bytes += more
            if node.acl is not before.acl:
                more += _acl_cost(node.acl) - _acl_cost(before.acl)
            self.cost_bytes += more
            return
        self.data_bytes += len(node.data)
        self.cost_bytes += _cost(path, node.data, node.acl)
        if path != "/":
            parent, name = parent_of(path), name_of(path)
            self._children.setdefault(parent, {})[name] = None
            if parent.endswith(paths.USERS):
                self._users.setdefault(name, {})[path] = None
        if node.ephemeral_owner:
            self._owned.setdefault(node.ephemeral_owner, {})[path] = None

    def _drop(self, path: str) -> None:
        node = self.nodes.pop(path)
        if self._undo is not None:
            self._undo.append((path, node))
        self.data_bytes -= len(node.data)
        self.cost_bytes -= _cost(path, node.data, node.acl)
        parent, name = parent_of(path), name_of(path)
        _discard(self._children, parent, name)
        if parent.endswith(paths.USERS):
            _discard(self._users, name, path)
        if node.ephemeral_owner:
            _discard(self._owned, node.ephemeral_owner, path)


def _cost(path: str, data: bytes, acl: tuple[Acl, ...]) -> int:
    return _NODE_BYTES + len(path) + len(data) + _acl_cost(acl)


def _acl_cost(acl: tuple[Acl, ...]) -> int:
    return 0 if acl is OPEN_ACL else bytes_of(acl)


def _discard(table: dict[_Key, dict[str, None]], key: _Key, name: str) -> None:
    names = table[key]
    del names[name]
    if not names:
        del table[key]
