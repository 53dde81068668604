"""The coordination tree: turns requests of sessions into answers, changes to be journalled and firing watches.

A pure state machine with ZooKeeper's semantics. Executing a request and replaying its change take the same steps, so
replaying the changes over the snapshot that they followed gives an equal tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

from attrs import frozen

from logd.coord.errors import BadArguments, CoordinationError, NoAuth, SessionExpired
from logd.coord.records import (
    OPEN_ACL,
    Acl,
    Children,
    EventType,
    Exists,
    GetAcl,
    GetChildren,
    GetData,
    Identity,
    Multi,
    NodeAcl,
    NodeData,
    Permission,
    Request,
    SetWatches,
    Stat,
    Sync,
    WatchEvent,
)
from logd.coord.tree.access import bytes_of, demand, demand_room, is_allowed, without_secrets
from logd.coord.tree.changes import (
    Change,
    DataReplaced,
    Effect,
    NodeMade,
    NodeRemoved,
    SessionClosed,
    SessionOpened,
)
from logd.coord.tree.nodes import FIRST_NODES, Node
from logd.coord.tree.operations import resolve, result_of
from logd.coord.tree.outcome import Answer, MultiFailed, Notification, OperationResult, Outcome
from logd.coord.tree.pathnames import parent_of
from logd.coord.tree.sessions import TreeSession
from logd.coord.tree.store import NodeStore
from logd.coord.tree.watches import Watches

#: An effect that watches report, with the access lists of its node and of the node's parent.
_Guarded = tuple[NodeMade | DataReplaced | NodeRemoved, tuple[Acl, ...], tuple[Acl, ...]]


@frozen
class TreeSnapshot:
    """The tree after the change ``zxid``. Immutable, so another thread may write it to disk."""

    zxid: int = 0
    nodes: Mapping[str, Node] = MappingProxyType(FIRST_NODES)
    sessions: tuple[TreeSession, ...] = ()


class Tree:
    """Nodes, sessions, watches. Watches are in neither changes nor snapshots: they end with their connection."""

    def __init__(self, snapshot: TreeSnapshot = TreeSnapshot()) -> None:
        #: The number of the last change; the next one is one higher.
        self.zxid = snapshot.zxid
        self.watches = Watches()
        self._store = NodeStore(snapshot.nodes)
        self._sessions = {session.id: session for session in snapshot.sessions}
        self._readers: dict[type, Callable[[int, tuple[Identity, ...], Any], Answer]] = {
            GetData: self._get_data,
            Exists: self._exists,
            GetChildren: self._get_children,
            GetAcl: self._get_acl,
            Sync: self._sync,
        }

    @property
    def sessions(self) -> Mapping[int, TreeSession]:
        """The open sessions, by id."""
        return MappingProxyType(self._sessions)

    @property
    def nodes(self) -> Mapping[str, Node]:
        """Every node by its path."""
        return MappingProxyType(self._store.nodes)

    def children(self, path: str) -> Mapping[str, None]:
        """Return the names of a node's children. Not to be kept: the mapping changes."""
        return self._store.children(path)

    def users(self, name: str) -> Mapping[str, None]:
        """Return the paths of the nodes of users of a name, in all clusters. Not to be kept: the mapping changes."""
        return self._store.users(name)

    @property
    def data_bytes(self) -> int:
        """The number of bytes of all nodes' data."""
        return self._store.data_bytes

    @property
    def ephemerals(self) -> Mapping[int, Mapping[str, None]]:
        """The paths of the ephemeral nodes, by session id. Not to be kept: the mapping changes."""
        return MappingProxyType(self._store.ephemerals())

    @property
    def cost_bytes(self) -> int:
        """The approximate memory of the nodes, in bytes."""
        return self._store.cost_bytes

    def limit(self, nodes: int, nodes_bytes: int) -> None:
        """Refuse, with SystemFailure, changes that make more or larger nodes than this; deletions are never refused."""
        self._store.limit_nodes, self._store.limit_bytes = nodes, nodes_bytes

    def children_count(self, path: str) -> int:
        """Return the number of a node's children; 0 also when there is no such node."""
        return len(self._store.children(path))

    def stat(self, path: str) -> Stat:
        """Return a node's Stat; raises KeyError when there is no such node."""
        return self._store.stat(path)

    def snapshot(self) -> TreeSnapshot:
        """Return the current tree, at the cost of copying a dict of references (some 10 ns a node)."""
        return TreeSnapshot(self.zxid, MappingProxyType(dict(self._store.nodes)), tuple(self._sessions.values()))

    @classmethod
    def restore(cls, snapshot: TreeSnapshot, changes: Iterable[Change] = ()) -> Tree:
        """Return the tree of a snapshot, with the changes behind it replayed."""
        tree = cls(snapshot)
        for change in changes:
            tree.replay(change)
        return tree

    def replay(self, change: Change) -> None:
        """Apply a journalled change; no watch fires. Raises ValueError when it is not the next one."""
        if change.zxid != self.zxid + 1:
            raise ValueError(f"change {change.zxid} does not follow {self.zxid}: changes are missing or out of order")
        self._do(change)

    def _do(self, change: Change) -> None:
        for effect in change.effects:
            self._apply(effect, change.zxid, change.time_ms, change.session_id)
        self.zxid = change.zxid

    def execute(self, session_id: int, identities: tuple[Identity, ...], request: Request, now_ms: int) -> Outcome:
        """Execute a session's request at once.

        Never raises a CoordinationError: the outcome's answer is the error. ``identities`` are those of the session's
        connection: its address, and those that it authenticated as.
        """
        if session_id not in self._sessions:
            return Outcome(self.zxid, SessionExpired(f"there is no session {session_id:#x} (any more)"))
        if isinstance(request, Multi):
            return self._multi(session_id, identities, request, now_ms)
        reader = self._readers.get(type(request))
        try:
            if reader is not None:
                return Outcome(self.zxid, reader(session_id, identities, request))
            if isinstance(request, SetWatches):
                return Outcome(self.zxid, None, None, tuple(self._set_watches(session_id, request)))
            return self._write(session_id, identities, request, now_ms)
        except CoordinationError as error:
            return Outcome(self.zxid, error)

    def open_session(self, timeout_ms: int, password: bytes, now_ms: int) -> Outcome:
        """Open a session; the change's ``session_id`` is its id, a number never used before."""
        return self._commit(self.zxid + 1, now_ms, (SessionOpened(timeout_ms, password),))

    def close_session(self, session_id: int, now_ms: int) -> Outcome:
        """End a session: delete its ephemeral nodes, fire watches (even its own), then forget its own watches."""
        if session_id not in self._sessions:
            return Outcome(self.zxid, SessionExpired(f"there is no session {session_id:#x} (any more)"))
        outcome = self._commit(session_id, now_ms, (SessionClosed(),))
        self.watches.forget(session_id)
        return outcome

    def forget_watches(self, session_id: int) -> None:
        """Forget the watches of a session whose connection is gone."""
        self.watches.forget(session_id)

    # Changes

    def _commit(self, session_id: int, now_ms: int, effects: tuple[Effect, ...]) -> Outcome:
        return Outcome(self.zxid + 1, None, *self._make(session_id, now_ms, effects))

    def _make(
        self, session_id: int, now_ms: int, effects: tuple[Effect, ...]
    ) -> tuple[Change, tuple[Notification, ...]]:
        change = Change(self.zxid + 1, now_ms, session_id, effects)
        if not self.watches:
            self._do(change)
            return change, ()
        guarded = [each for effect in effects for each in self._guarded(effect, session_id)]
        self._do(change)
        return change, self._fired(guarded)

    def _write(self, session_id: int, identities: tuple[Identity, ...], request: Any, now_ms: int) -> Outcome:
        effect = resolve(self._store, request, identities)
        if effect is None:
            return Outcome(self.zxid, None)
        change, notifications = self._make(session_id, now_ms, (effect,))
        return Outcome(change.zxid, result_of(self._store, effect), change, notifications)

    def _multi(self, session_id: int, identities: tuple[Identity, ...], request: Multi, now_ms: int) -> Outcome:
        zxid = self.zxid + 1
        effects: list[Effect] = []
        guarded: list[_Guarded] = []
        results: list[OperationResult] = []
        lists_bytes = 0
        self._store.begin()
        try:
            for operation in request.operations:
                effect = resolve(self._store, operation, identities)
                if effect is not None:
                    if isinstance(effect, NodeMade) and effect.acl is not OPEN_ACL:
                        lists_bytes += bytes_of(effect.acl)
                        demand_room(lists_bytes, effect.path)
                    guarded.extend(self._guarded(effect, session_id))
                    self._store.apply(effect, zxid, now_ms, session_id)
                    effects.append(effect)
                results.append(result_of(self._store, effect))
        except CoordinationError as error:
            self._store.roll_back()
            return Outcome(self.zxid, MultiFailed(len(results), error, len(request.operations)))
        self._store.commit()
        if not effects:
            return Outcome(self.zxid, tuple(results))
        self.zxid = zxid
        change = Change(zxid, now_ms, session_id, tuple(effects))
        return Outcome(zxid, tuple(results), change, self._fired(guarded))

    def _apply(self, effect: Effect, zxid: int, time_ms: int, session_id: int) -> None:
        if isinstance(effect, SessionOpened):
            self._sessions[session_id] = TreeSession(session_id, effect.timeout_ms, effect.password)
            return
        self._store.apply(effect, zxid, time_ms, session_id)
        if isinstance(effect, SessionClosed):
            del self._sessions[session_id]

    def _guarded(self, effect: Effect, session_id: int) -> Iterable[_Guarded]:
        """Yield what watches may report of an effect that is not applied yet, with the access lists that decide."""
        nodes = self._store.nodes
        if isinstance(effect, NodeMade):
            return ((effect, effect.acl, nodes[parent_of(effect.path)].acl),)
        if isinstance(effect, DataReplaced):
            return ((effect, nodes[effect.path].acl, OPEN_ACL),)
        if isinstance(effect, NodeRemoved):
            return ((effect, nodes[effect.path].acl, nodes[parent_of(effect.path)].acl),)
        if isinstance(effect, SessionClosed):
            removed = map(NodeRemoved, self._store.owned(session_id))
            return tuple((each, nodes[each.path].acl, nodes[parent_of(each.path)].acl) for each in removed)
        return ()

    def _fired(self, guarded: Iterable[_Guarded]) -> tuple[Notification, ...]:
        fired: list[Notification] = []
        for effect, acl, parent_acl in guarded:
            if isinstance(effect, NodeMade):
                fired.extend(self.watches.made(effect.path, acl, parent_acl))
            elif isinstance(effect, DataReplaced):
                fired.extend(self.watches.changed(effect.path, acl))
            else:
                fired.extend(self.watches.removed(effect.path, acl, parent_acl))
        return tuple(fired)

    # Reads

    def _get_data(self, session_id: int, identities: tuple[Identity, ...], request: GetData) -> NodeData:
        path = request.path
        node = self._store.get(path)
        demand(node.acl, Permission.READ, identities, path)
        if request.watch:
            self.watches.leave(self.watches.data, path, session_id)
        return NodeData(node.data, self._store.stat(path))

    def _exists(self, session_id: int, identities: tuple[Identity, ...], request: Exists) -> Stat:
        path = request.path
        if "\0" in path:
            raise BadArguments(f"{path[:200]!r} is no path of a node: it has a null character", path)
        node = self._store.nodes.get(path)
        if node is not None:
            demand(node.acl, Permission.READ, identities, path)
        if request.watch:
            self.watches.leave(
                self.watches.data, path, session_id
            )  # also if there is no node: the watch reports its creation
        self._store.get(path)
        return self._store.stat(path)

    def _get_children(self, session_id: int, identities: tuple[Identity, ...], request: GetChildren) -> Children:
        path = request.path
        demand(self._store.get(path).acl, Permission.READ, identities, path)
        if request.watch:
            self.watches.leave(self.watches.children, path, session_id)
        return Children(tuple(self._store.children(path)), self._store.stat(path))

    def _get_acl(self, session_id: int, identities: tuple[Identity, ...], request: GetAcl) -> NodeAcl:
        path = request.path
        acl = self._store.get(path).acl
        if not is_allowed(acl, Permission.READ | Permission.ADMIN, identities):
            raise NoAuth(f"{path}: the node's access list does not allow READ to this client", path)
        shown = acl if is_allowed(acl, Permission.ADMIN, identities) else without_secrets(acl)
        return NodeAcl(shown, self._store.stat(path))

    def _sync(self, session_id: int, identities: tuple[Identity, ...], request: Sync) -> None:
        return None  # there is only one copy of this tree, and requests run in order

    def _set_watches(self, session_id: int, request: SetWatches) -> Iterator[Notification]:
        nodes, zxid = self._store.nodes, request.zxid
        # All or none: if a later watch could not be left, the events found before it would be lost.
        self.watches.demand_room((*request.data, *request.exists, *request.children))

        def event(type_: EventType, path: str) -> Notification:
            return Notification(session_id, WatchEvent(type_, path))

        for path in request.data:
            if path not in nodes:
                yield event(EventType.DELETED, path)
            elif nodes[path].modified_zxid > zxid:
                yield event(EventType.CHANGED, path)
            else:
                self.watches.leave(self.watches.data, path, session_id)
        for path in request.exists:
            if path in nodes:
                yield event(EventType.CREATED, path)
            else:
                self.watches.leave(self.watches.data, path, session_id)
        for path in request.children:
            if path not in nodes:
                yield event(EventType.DELETED, path)
            elif nodes[path].children_zxid > zxid:
                yield event(EventType.CHILDREN, path)
            else:
                self.watches.leave(self.watches.children, path, session_id)
