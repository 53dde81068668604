"""Backpressure: producing connections are paused while the broker has too many unflushed bytes."""

from __future__ import annotations

from typing import Protocol

from attrs import define, field
from twisted.logger import Logger

from logd.net.session import PauseReason

_log = Logger()


class Gated(Protocol):
    """The methods of a server's connection that are used here; tests pause stand-ins."""

    def pause(self, reason: PauseReason) -> None: ...

    def resume(self, reason: PauseReason) -> None: ...


@define(eq=False)
class FlushPressure:
    """A gate for all connections that have produced. The flusher opens and shuts it."""

    _connections: dict[Gated, None] = field(factory=dict, init=False)
    shut: bool = field(default=False, init=False)
    times_shut: int = field(default=0, init=False)

    def add(self, connection: Gated) -> None:
        """Pause this connection together with the others from now on."""
        self._connections[connection] = None
        if self.shut:
            connection.pause(PauseReason.FLUSH)

    def discard(self, connection: Gated) -> None:
        """Forget a connection that is lost."""
        self._connections.pop(connection, None)

    def set(self, shut: bool) -> None:
        """Pause or resume all connections."""
        if shut == self.shut:
            return
        self.shut = shut
        self.times_shut += shut
        for connection in tuple(self._connections):
            try:
                if shut:
                    connection.pause(PauseReason.FLUSH)
                else:
                    connection.resume(PauseReason.FLUSH)
            except Exception:  # a bug; the others would be paused for ever
                _log.failure("a producing connection could not be paused or resumed; the others are handled as usual")
            if not shut and self.shut:  # again, by what this connection had ready: the others stay paused
                return
