"""The common part of all conversations whose requests are frames behind an int32 size."""

from __future__ import annotations

from logd.errors import ProtocolViolation
from logd.protocol.conversation.framing import DEFAULT_MAX_FRAME_BYTES, FrameBuffer
from logd.protocol.conversation.interfaces import Received


class FramedConversation:
    """Cuts received data into frames; a subclass reads each by ``read_frame``. See IConversation."""

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self._frames = FrameBuffer(max_frame_bytes)
        self.violation: ProtocolViolation | None = None

    @property
    def kept_bytes(self) -> int:
        """See IConversation."""
        return self._frames.kept_bytes

    def receive_data(self, data: bytes) -> list[Received]:
        """See IConversation."""
        received: list[Received] = []
        if self.violation is None:
            try:
                for frame, start, stop in self._frames.feed(data):
                    received.append(self.read_frame(frame, start, stop))
            except ProtocolViolation as violation:
                self.violation = violation
        return received

    def read_frame(self, frame: bytes | memoryview, start: int, stop: int) -> Received:
        """Read the request that is ``frame[start:stop]``, and expect its answer. Raises ProtocolViolation."""
        raise NotImplementedError
