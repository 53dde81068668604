"""Connections that produce are paused while too many bytes of the whole broker wait for the disk."""

from __future__ import annotations

from typing import Protocol

from attrs import define, field
from twisted.logger import Logger

from logd.net.holds import Hold

_log = Logger()


class Gated(Protocol):
    """The part of a connection that is needed here."""

    def hold(self, reason: Hold) -> None: ...

    def proceed(self, reason: Hold) -> None: ...


@define(eq=False)
class FlushPressure:
    """Open or shut for every connection that has produced; told by the flusher."""

    _connections: dict[Gated, None] = field(factory=dict, init=False)
    shut: bool = field(default=False, init=False)
    times_shut: int = field(default=0, init=False)

    def add(self, connection: Gated) -> None:
        """From now on this connection is paused with the others."""
        self._connections[connection] = None
        if self.shut:
            connection.hold(Hold.FLUSH)

    def discard(self, connection: Gated) -> None:
        """The connection is gone."""
        self._connections.pop(connection, None)

    def set(self, shut: bool) -> None:
        """Pause, or let go on."""
        if shut == self.shut:
            return
        self.shut = shut
        self.times_shut += shut
        for connection in tuple(self._connections):
            try:
                if shut:
                    connection.hold(Hold.FLUSH)
                else:
                    connection.proceed(Hold.FLUSH)
            except Exception:  # a bug; the others would be paused for ever
                _log.failure("a producing connection could not be paused or let go on")
            if not shut and self.shut:  # again, by what this connection had ready: the others stay paused
                return
