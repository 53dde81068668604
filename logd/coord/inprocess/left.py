"""The watches that a client has left, as Deferreds: which event fires which."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.coord.records import EventType, SessionState, WatchEvent


class LeftWatches:
    """A client's watches by what they watch: a node's data (and whether it exists), or the list of its children."""

    def __init__(self) -> None:
        self._data: dict[str, list[Deferred[WatchEvent]]] = {}
        self._children: dict[str, list[Deferred[WatchEvent]]] = {}

    def __len__(self) -> int:
        return sum(len(watches) for table in (self._data, self._children) for watches in table.values())

    def add(self, path: str, watch: Deferred[WatchEvent], *, children: bool) -> None:
        """Keep a watch that the server has; not one that was cancelled meanwhile."""
        if not watch.called:
            (self._children if children else self._data).setdefault(path, []).append(watch)

    def fire(self, event: WatchEvent) -> None:
        """The server told of a change."""
        watches: list[Deferred[WatchEvent]] = []
        if event.type is not EventType.CHILDREN:
            watches += self._data.pop(event.path, ())
        if event.type in (EventType.CHILDREN, EventType.DELETED):
            watches += self._children.pop(event.path, ())
        _fire(watches, event)

    def forget(self, state: SessionState) -> None:
        """The connection is gone: every watch is told so, and has to be left again."""
        tables = (self._data, self._children)
        self._data, self._children = {}, {}
        for table in tables:
            for path, watches in table.items():
                _fire(watches, WatchEvent(EventType.SESSION, path, state))


def _fire(watches: list[Deferred[WatchEvent]], event: WatchEvent) -> None:
    for watch in watches:
        if not watch.called:  # one that was cancelled
            watch.callback(event)
