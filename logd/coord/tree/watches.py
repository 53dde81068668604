"""Watches left by sessions, and the changes of the tree that fire them, as in ZooKeeper's WatchManager.

A data watch (left by reading a node's data, or by asking whether it exists) fires when the node is created, changed or
deleted; a child watch when a child is created or deleted, or when the node is deleted. Each fires once, and one change
notifies a session once per node, even if both of its watches fire. A session that may not read the node is not
notified (as in ZooKeeper since 3.9.2): a notification carries the access list that decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from logd.coord.errors import SystemFailure
from logd.coord.records import OPEN_ACL, Acl, EventType, WatchEvent
from logd.coord.tree.outcome import Notification
from logd.coord.tree.pathnames import parent_of

AccessList = tuple[Acl, ...]


#: The bytes of a watch beside its path (290 measured): two dict entries, and a dict if it is its path's only one.
_WATCH_BYTES = 300
#: The default limit on the bytes of all watches of a tree: some 850,000 with short paths.
WATCHES_BYTES = 256 << 20


class WatchTable:
    """One kind of watch: the sessions that watch each path, notified in the order in which they left watches."""

    def __init__(self) -> None:
        # Dicts instead of sets, because their order is the same from run to run.
        self._sessions: dict[str, dict[int, None]] = {}
        self._paths: dict[int, dict[str, None]] = {}
        #: The approximate memory of the watches.
        self.cost_bytes = 0

    def __len__(self) -> int:
        return sum(map(len, self._paths.values()))

    def paths(self) -> int:
        """Return the number of watched paths."""
        return len(self._sessions)

    def watchers(self) -> set[int]:
        """Return the sessions that watch anything."""
        return set(self._paths)

    def add(self, path: str, session_id: int) -> None:
        """Leave a watch; leaving it twice has no effect."""
        paths = self._paths.setdefault(session_id, {})
        if path not in paths:
            paths[path] = None
            self._sessions.setdefault(path, {})[session_id] = None
            self.cost_bytes += _WATCH_BYTES + len(path)

    def take(self, path: str) -> Iterable[int]:
        """Remove every watch on a path; return the sessions that left them."""
        sessions = self._sessions.pop(path, None)
        if sessions is None:
            return ()
        for session_id in sessions:
            self._drop(session_id, path)
        return sessions

    def forget(self, session_id: int) -> None:
        """Remove every watch of a session."""
        for path in self._paths.pop(session_id, ()):
            sessions = self._sessions[path]
            del sessions[session_id]
            self.cost_bytes -= _WATCH_BYTES + len(path)
            if not sessions:
                del self._sessions[path]

    def _drop(self, session_id: int, path: str) -> None:
        paths = self._paths[session_id]
        del paths[path]
        self.cost_bytes -= _WATCH_BYTES + len(path)
        if not paths:
            del self._paths[session_id]


class Watches:
    """Both kinds of watches of one tree; ``limit_bytes`` is about the memory that they may take together."""

    def __init__(self, limit_bytes: int = WATCHES_BYTES) -> None:
        self.data = WatchTable()
        self.children = WatchTable()
        self.limit_bytes = limit_bytes

    def __bool__(self) -> bool:
        return self.data.cost_bytes + self.children.cost_bytes > 0  # asked at every change

    def leave(self, table: WatchTable, path: str, session_id: int) -> None:
        """Leave a watch in one of the tables. Raises SystemFailure when there are too many (ZooKeeper has no bound)."""
        if self.data.cost_bytes + self.children.cost_bytes >= self.limit_bytes:
            raise self._too_many(path)
        table.add(path, session_id)

    def demand_room(self, paths: Collection[str]) -> None:
        """Raise SystemFailure unless watches on all of these paths can be left."""
        more = sum(map(len, paths)) + _WATCH_BYTES * len(paths)
        if paths and self.data.cost_bytes + self.children.cost_bytes + more > self.limit_bytes:
            raise self._too_many(next(iter(paths)))

    def _too_many(self, path: str) -> SystemFailure:
        text = f"{path[:200]}: no watch can be left: all watches together may take {self.limit_bytes} bytes"
        return SystemFailure(text, path)

    def made(self, path: str, acl: AccessList = OPEN_ACL, parent_acl: AccessList = OPEN_ACL) -> Iterator[Notification]:
        """Fire for a created node; the lists are its own and that of its parent."""
        yield from _fire(self.data.take(path), EventType.CREATED, path, acl)
        yield from self._listed(path, parent_acl)

    def changed(self, path: str, acl: AccessList = OPEN_ACL) -> Iterator[Notification]:
        """Fire for a node whose data were replaced."""
        yield from _fire(self.data.take(path), EventType.CHANGED, path, acl)

    def removed(
        self, path: str, acl: AccessList = OPEN_ACL, parent_acl: AccessList = OPEN_ACL
    ) -> Iterator[Notification]:
        """Fire for a deleted node; the lists are its former one, and that of its parent."""
        told = self.data.take(path)
        yield from _fire(told, EventType.DELETED, path, acl)
        yield from _fire((id_ for id_ in self.children.take(path) if id_ not in told), EventType.DELETED, path, acl)
        yield from self._listed(path, parent_acl)

    def forget(self, session_id: int) -> None:
        """Remove every watch of a session."""
        self.data.forget(session_id)
        self.children.forget(session_id)

    def sessions(self) -> int:
        """Return the number of sessions that watch anything."""
        return len(self.data.watchers() | self.children.watchers())

    def paths(self) -> int:
        """Return the number of watched paths; a path watched in both ways counts twice."""
        return self.data.paths() + self.children.paths()

    def _listed(self, path: str, parent_acl: AccessList) -> Iterator[Notification]:
        parent = parent_of(path)
        yield from _fire(self.children.take(parent), EventType.CHILDREN, parent, parent_acl)


def _fire(sessions: Iterable[int], type_: EventType, path: str, acl: AccessList) -> Iterator[Notification]:
    event = None
    for session_id in sessions:
        if event is None:
            event = WatchEvent(type_, path)
        yield Notification(session_id, event, acl)
