"""Bytes received on a connection and not consumed yet, cut into frames."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator

from logd.protocol.conversation.foreign import ForeignClient, foreign_opening
from logd.protocol.conversation.framing import Frame, FrameBuffer

#: The places where the address of the tree's port is given: a broker's and that of a tree without one.
_SETTINGS = "zookeeper.listen, or --listen of `logd zookeeper`"


class Incoming:
    """Chunks as received from the socket; they are cut into frames only on demand."""

    __slots__ = ("_begun", "_frames", "_pieces", "unfinished")

    def __init__(self, frame_bytes: int) -> None:
        self._frames = FrameBuffer(frame_bytes)
        self._pieces: deque[bytes] = deque()
        self._begun: Iterator[Frame] = iter(())
        #: Goes on with a frame that is consumed in parts, before the frames behind it.
        self.unfinished: Callable[[], None] | None = None

    @property
    def kept_bytes(self) -> int:
        """The number of bytes held of an incomplete frame."""
        return self._frames.kept_bytes

    @property
    def foreign(self) -> ForeignClient | None:
        """The client of another protocol whose first bytes were refused as a size; None if it is not recognized."""
        return foreign_opening(self._frames.refused_size, _SETTINGS)

    def add(self, data: bytes) -> None:
        """Add a received chunk."""
        self._pieces.append(data)

    def take(self) -> Frame | None:
        """Return the next frame; None when it is incomplete. Raises ProtocolViolation as FrameBuffer does."""
        while True:
            frame = next(self._begun, None)
            if frame is not None or not self._pieces:
                return frame
            self._begun = self._frames.feed(self._pieces.popleft())

    def clear(self) -> None:
        """Forget everything not consumed."""
        self._pieces.clear()
        self._begun = iter(())
        self.unfinished = None
