"""A plain model of the coordination tree: slow, without access lists, and written without looking at ours."""

from __future__ import annotations

from collections import defaultdict
from copy import deepcopy

from attrs import define

from logd.coord.errors import (
    BadArguments,
    BadVersion,
    CoordinationError,
    NoChildrenForEphemerals,
    NodeExists,
    NoNode,
    NotEmpty,
)
from logd.coord.records import Check, Create, Delete, EventType, Operation, SetData, Stat

Events = dict[int, list[tuple[EventType, str]]]


@define
class Entry:
    """One node. ``list_changes`` counts every child that came or went."""

    data: bytes
    owner: int
    zxid: int
    time: int
    modified_zxid: int
    modified_time: int
    list_zxid: int
    version: int = 0
    made: int = 0
    list_changes: int = 0


class Model:
    """Nodes in a dict, watches in a set; children are found by looking at every path."""

    def __init__(self) -> None:
        self.nodes = {
            path: Entry(b"", 0, 0, 0, 0, 0, 0) for path in ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota")
        }
        # The first nodes of a tree were never made.
        self.nodes["/"].list_changes = -1
        self.nodes["/zookeeper"].list_changes = -2
        self.zxid = 0
        #: (session, "data" or "children", path)
        self.watches: set[tuple[int, str, str]] = set()

    def children(self, path: str) -> set[str]:
        """Return the names of a node's children."""
        prefix = "/" if path == "/" else path + "/"
        return {each[len(prefix) :] for each in self.nodes if each.startswith(prefix) and each != "/"} - {
            each[len(prefix) :] for each in self.nodes if each.startswith(prefix) and "/" in each[len(prefix) :]
        }

    def stat(self, path: str) -> Stat:
        """Return the Stat that the node should have."""
        each = self.nodes[path]
        return Stat(
            created_zxid=each.zxid,
            modified_zxid=each.modified_zxid,
            created_ms=each.time,
            modified_ms=each.modified_time,
            version=each.version,
            children_version=each.list_changes,
            acl_version=-1 if path == "/zookeeper/config" else 0,
            ephemeral_owner=each.owner,
            data_length=len(each.data),
            children_count=len(self.children(path)),
            children_zxid=each.list_zxid,
        )

    def run(self, session: int, operations: list[Operation], now: int) -> tuple[list[object], Events]:
        """Do all of the operations or none; raise the error of the first that fails, with its index as ``index``."""
        before = deepcopy(self.nodes)
        results: list[object] = []
        happened: list[tuple[EventType, str]] = []
        for index, operation in enumerate(operations):
            try:
                results.append(self._do(session, operation, now, happened))
            except CoordinationError as error:
                self.nodes = before
                error.index = index  # type: ignore[attr-defined]
                raise
        if any(not isinstance(operation, Check) for operation in operations):
            self.zxid += 1
        return results, self._fire(happened)

    def end(self, session: int, now: int) -> Events:
        """Take a session's nodes and watches away."""
        happened: list[tuple[EventType, str]] = []
        for path in [path for path, each in self.nodes.items() if each.owner == session]:
            self._take(path, happened)
        self.zxid += 1
        events = self._fire(happened)
        self.forget(session)
        return events

    def forget(self, session: int) -> None:
        """Take a session's watches away."""
        self.watches = {watch for watch in self.watches if watch[0] != session}

    def _do(self, session: int, operation: Operation, now: int, happened: list[tuple[EventType, str]]) -> object:
        path = operation.path
        if isinstance(operation, Create):
            return self._make(session, operation, now, happened)
        if isinstance(operation, Delete) and path in ("/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"):
            raise BadArguments
        if path not in self.nodes:
            raise NoNode
        node = self.nodes[path]
        if operation.version >= 0 and operation.version != node.version:
            raise BadVersion
        if isinstance(operation, Delete):
            if self.children(path):
                raise NotEmpty
            self._take(path, happened)
        elif isinstance(operation, SetData):
            node.data = operation.data
            node.version += 1
            node.modified_zxid, node.modified_time = self.zxid + 1, now
            happened.append((EventType.CHANGED, path))
            return self.stat(path)
        return None

    def _make(self, session: int, request: Create, now: int, happened: list[tuple[EventType, str]]) -> object:
        path = request.path
        above = path.rpartition("/")[0] or "/"
        if above not in self.nodes:
            raise NoNode
        parent = self.nodes[above]
        if request.sequence:
            path += str(parent.made).rjust(10, "0")
        if path in self.nodes:
            raise NodeExists
        if parent.owner:
            raise NoChildrenForEphemerals
        zxid = self.zxid + 1
        owner = session if request.ephemeral else 0
        self.nodes[path] = Entry(request.data, owner, zxid, now, zxid, now, zxid)
        parent.made += 1
        parent.list_changes += 1
        parent.list_zxid = zxid
        happened += [(EventType.CREATED, path), (EventType.CHILDREN, above)]
        return (path, self.stat(path))

    def _take(self, path: str, happened: list[tuple[EventType, str]]) -> None:
        del self.nodes[path]
        above = path.rpartition("/")[0] or "/"
        self.nodes[above].list_changes += 1
        self.nodes[above].list_zxid = self.zxid + 1
        happened += [(EventType.DELETED, path), (EventType.CHILDREN, above)]

    def _fire(self, happened: list[tuple[EventType, str]]) -> Events:
        events: Events = defaultdict(list)
        for type_, path in happened:
            kinds = {EventType.CHILDREN: {"children"}, EventType.DELETED: {"data", "children"}}.get(type_, {"data"})
            fired = {watch for watch in self.watches if watch[1] in kinds and watch[2] == path}
            self.watches -= fired
            for session in {watch[0] for watch in fired}:
                events[session].append((type_, path))
        return dict(events)
