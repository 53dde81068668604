"""Requests whose answers are not out of the tree yet: of one connection, and of all of a server together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define, field

from logd.coord.records import GetChildren

if TYPE_CHECKING:
    from logd.coord.server.server import CoordinationServer

#: Memory of a request that waits for its answer, beside its bytes (1.2 kB measured for a small write); and of each name
#: in an answer that lists children.
REQUEST_BYTES = 1 << 10
_NAME_BYTES = 8


@define(eq=False)
class PendingRequests:
    """Those of one connection."""

    _server: CoordinationServer
    count: int = field(default=0, init=False)
    _bytes: int = field(default=0, init=False)

    def begin(self, request: Any, frame_bytes: int) -> int:
        """Count a request that came in so many bytes; return what ``end`` has to be told."""
        size = frame_bytes + REQUEST_BYTES
        if isinstance(request, GetChildren):
            size += _NAME_BYTES * self._server.tree.children_count(request.path)
        self.count += 1
        self._bytes += size
        self._server.pending_bytes += size
        return size

    def end(self, size: int) -> None:
        """One was answered."""
        self.count -= 1
        self._bytes -= size
        self._server.pending_bytes -= size

    def is_full(self) -> bool:
        """Return whether no more may be taken of this connection.

        Only a connection that is owed an answer is left waiting for room: when it gets the answer, it is looked at
        again.
        """
        settings = self._server.settings
        full = self.count >= settings.pending or self._server.pending_bytes >= settings.pending_bytes
        return self.count > 0 and full

    def leave(self) -> None:
        """The connection is gone: its answers, when they come, are counted as before, and their bytes no more."""
        self._server.pending_bytes -= self._bytes
        self._bytes = 0
