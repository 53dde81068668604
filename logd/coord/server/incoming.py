"""What arrived of a connection and was not taken yet, frame by frame."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from logd.protocol.conversation.framing import Frame, FrameBuffer


class Incoming:
    """Pieces as they came by the socket; they are cut into frames only as these are asked for."""

    __slots__ = ("_begun", "_frames", "_pieces")

    def __init__(self, frame_bytes: int) -> None:
        self._frames = FrameBuffer(frame_bytes)
        self._pieces: deque[bytes] = deque()
        self._begun: Iterator[Frame] = iter(())

    @property
    def kept_bytes(self) -> int:
        """Bytes that are here of an incomplete frame."""
        return self._frames.kept_bytes

    def add(self, data: bytes) -> None:
        """One more piece has come."""
        self._pieces.append(data)

    def take(self) -> Frame | None:
        """The next frame; None when no whole one is here. Raises ProtocolViolation as FrameBuffer does."""
        while True:
            frame = next(self._begun, None)
            if frame is not None or not self._pieces:
                return frame
            self._begun = self._frames.feed(self._pieces.popleft())

    def clear(self) -> None:
        """Forget what was not taken."""
        self._pieces.clear()
        self._begun = iter(())
