"""The output of a connection: encoded when the peer takes it, and written together where it belongs together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from logd.coord.server.counters import ServerCounters

#: Answers to one received chunk, or of one sync, are written together, up to this many bytes.
_HELD_BYTES = 1 << 14


class Outgoing:
    """Answers and events of one connection, in their order.

    While the peer takes nothing (``pause``, ``resume``), output waits as records of the tree, not as bytes. Output
    between ``hold`` and ``let_go`` (which may be nested) is written together.
    """

    __slots__ = ("_bytes", "_counters", "_held", "_holds", "_paused", "_waiting", "_write", "is_held_up")

    def __init__(self, counters: ServerCounters) -> None:
        self._counters = counters
        self._write: Callable[[bytes], object] = lambda data: None
        #: True while the peer takes nothing, or earlier output still waits.
        self.is_held_up = False
        self._paused = False
        self._holds = 0
        self._held: list[bytes] = []
        self._bytes = 0
        self._waiting: deque[Callable[[], bytes]] = deque()

    def __len__(self) -> int:
        """Return the number of answers and events that wait until the peer takes them."""
        return len(self._waiting)

    def begin(self, write: Callable[[bytes], object]) -> None:
        """Write to this transport from now on."""
        self._write = write

    def send(self, make: Callable[..., bytes], *args: Any) -> None:
        """Send ``make(*args)``, which is called once the peer takes it."""
        if self.is_held_up:
            self._waiting.append(partial(make, *args))
        else:
            self.write(make(*args))

    def write(self, data: bytes) -> None:
        """Send these bytes before all waiting output."""
        counters = self._counters
        counters.packets_sent += 1
        counters.bytes_sent += len(data)
        self._held.append(data)
        self._bytes += len(data)
        if not self._holds or self._bytes > _HELD_BYTES:
            self.flush()

    def hold(self) -> None:
        """Hold output back, since more follows that belongs to it."""
        self._holds += 1

    def let_go(self) -> None:
        """Write the output held back since ``hold``."""
        self._holds -= 1
        if not self._holds:
            self.flush()

    def pause(self) -> None:
        """Note that the peer takes nothing."""
        self._paused = self.is_held_up = True

    def resume(self) -> None:
        """Note that the peer takes data again: send the waiting output, as far as it does."""
        self._paused = False
        while self._waiting and not self._paused:
            self.write(self._waiting.popleft()())
        self.is_held_up = self._paused or bool(self._waiting)

    def clear(self) -> None:
        """Forget unsent output."""
        self._waiting.clear()
        self.is_held_up = self._paused
        self._held.clear()
        self._bytes = 0

    def flush(self) -> None:
        """Write the output held back."""
        if self._held:
            held, self._held = self._held, []
            self._bytes = 0
            self._write(held[0] if len(held) == 1 else b"".join(held))
