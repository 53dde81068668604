"""A client's watches that have not fired: one-shot, forgotten with the connection."""

from __future__ import annotations

import enum

from twisted.internet.defer import Deferred

from logd.coord.records import EventType, SessionState, WatchEvent


class WatchKind(enum.Enum):
    """The kind of a watch; a server treats those of ``get`` and ``exists`` as one."""

    DATA = "data"
    CHILDREN = "children"


class ClientWatches:
    """Deferreds by kind and path. A watch is left when its answer has come, so that no older event fires it."""

    def __init__(self) -> None:
        self._left: dict[tuple[WatchKind, str], dict[Deferred[WatchEvent], None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._left.values()))

    def make(self, kind: WatchKind, path: str) -> Deferred[WatchEvent]:
        """Return a watch that is not left yet; cancelling it forgets it."""
        return Deferred(lambda watch: self._forget(kind, path, watch))

    def leave(self, kind: WatchKind, path: str, watch: Deferred[WatchEvent]) -> None:
        """Let the next event of that kind at that path fire ``watch``."""
        if not watch.called:
            self._left.setdefault((kind, path), {})[watch] = None

    def fire(self, kind: WatchKind, path: str, event: EventType) -> None:
        """Fire all watches left for that kind and path."""
        for watch in self._left.pop((kind, path), {}):
            if not watch.called:
                watch.callback(WatchEvent(event, path))

    def fire_all(self, state: SessionState) -> None:
        """Fire every watch, since the connection is gone."""
        left, self._left = self._left, {}
        for (_, path), watches in left.items():
            for watch in watches:
                if not watch.called:
                    watch.callback(WatchEvent(EventType.SESSION, path, state))

    def _forget(self, kind: WatchKind, path: str, watch: Deferred[WatchEvent]) -> None:
        left = self._left.get((kind, path))
        if left is not None and left.pop(watch, watch) is None and not left:
            del self._left[kind, path]
