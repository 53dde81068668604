"""What a connection sends: made bytes of when the peer takes it, and written together where it belongs together."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

from logd.coord.server.counters import ServerCounters

#: Answers that belong to one piece of what arrived, or to one sync, are written together, up to so many bytes.
_HELD_BYTES = 1 << 14


class Outgoing:
    """Answers and events of one connection, in their order.

    While the peer takes nothing (``pause``, ``resume``) what is to be sent is kept as it is in the tree, not as bytes.
    What is written between ``hold`` and ``let_go`` (which may be nested) leaves together.
    """

    __slots__ = ("_bytes", "_counters", "_held", "_holds", "_paused", "_waiting", "_write", "is_held_up")

    def __init__(self, counters: ServerCounters) -> None:
        self._counters = counters
        self._write: Callable[[bytes], object] = lambda data: None
        #: Whether the peer takes nothing, or there is still something that it did not take.
        self.is_held_up = False
        self._paused = False
        self._holds = 0
        self._held: list[bytes] = []
        self._bytes = 0
        self._waiting: deque[Callable[[], bytes]] = deque()

    def __len__(self) -> int:
        """How many wait until the peer takes them."""
        return len(self._waiting)

    def begin(self, write: Callable[[bytes], object]) -> None:
        """There is a transport, and this writes to it."""
        self._write = write

    def send(self, make: Callable[..., bytes], *args: Any) -> None:
        """Send ``make(*args)``, which is called once the peer takes it."""
        if self.is_held_up:
            self._waiting.append(partial(make, *args))
        else:
            self.write(make(*args))

    def write(self, data: bytes) -> None:
        """Send these bytes before all that waits."""
        counters = self._counters
        counters.packets_sent += 1
        counters.bytes_sent += len(data)
        self._held.append(data)
        self._bytes += len(data)
        if not self._holds or self._bytes > _HELD_BYTES:
            self.flush()

    def hold(self) -> None:
        """More is to come that belongs together."""
        self._holds += 1

    def let_go(self) -> None:
        """That was all."""
        self._holds -= 1
        if not self._holds:
            self.flush()

    def pause(self) -> None:
        """The peer takes nothing."""
        self._paused = self.is_held_up = True

    def resume(self) -> None:
        """The peer takes something: send what waits, as far as it does."""
        self._paused = False
        while self._waiting and not self._paused:
            self.write(self._waiting.popleft()())
        self.is_held_up = self._paused or bool(self._waiting)

    def clear(self) -> None:
        """Forget what was not sent."""
        self._waiting.clear()
        self.is_held_up = self._paused
        self._held.clear()
        self._bytes = 0

    def flush(self) -> None:
        """Hand over what is held."""
        if self._held:
            held, self._held = self._held, []
            self._bytes = 0
            self._write(held[0] if len(held) == 1 else b"".join(held))
