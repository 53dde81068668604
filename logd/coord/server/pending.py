"""Requests whose answers the tree has not given yet: of one connection, and of the whole server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from attrs import define, field

from logd.coord.records import GetChildren

if TYPE_CHECKING:
    from logd.coord.server.server import CoordinationServer

#: Memory of a request that waits for its answer, beside its bytes (1.2 kB measured for a small write); and of each name
#: in an answer with a list of children.
REQUEST_BYTES = 1 << 10
_NAME_BYTES = 8


@define(eq=False)
class PendingRequests:
    """The pending requests of one connection."""

    _server: CoordinationServer
    count: int = field(default=0, init=False)
    _bytes: int = field(default=0, init=False)

    def begin(self, request: Any, frame_bytes: int) -> int:
        """Count a request that came in so many bytes; return the size to pass to ``end``."""
        size = frame_bytes + REQUEST_BYTES
        if isinstance(request, GetChildren):
            size += _NAME_BYTES * self._server.tree.children_count(request.path)
        self.count += 1
        self._bytes += size
        self._server.pending_bytes += size
        return size

    def end(self, size: int) -> None:
        """Count an answered request; its bytes are counted no longer if the connection is gone."""
        size = min(size, self._bytes)
        self.count -= 1
        self._bytes -= size
        self._server.pending_bytes -= size

    def is_full(self) -> bool:
        """Return whether no more requests of this connection may be taken.

        Only a connection with a pending answer waits for room: it is checked again when it gets the answer.
        """
        settings = self._server.settings
        full = self.count >= settings.pending or self._server.pending_bytes >= settings.pending_bytes
        return self.count > 0 and full

    def leave(self) -> None:
        """Note that the connection is gone: its answers are still counted when they come, its bytes no longer."""
        self._server.pending_bytes -= self._bytes
        self._bytes = 0
