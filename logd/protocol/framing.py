"""Frames out of a stream: int32 size, then as many bytes; linear in the bytes received."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from logd.errors import ProtocolViolation

_SIZE = Struct(">i")
_SIZE_BYTES = _SIZE.size

#: The frame limit unless it is set otherwise: 16 MiB.
DEFAULT_MAX_FRAME_BYTES = 16 << 20

#: A frame's bytes behind its size: where they are, the index of the first, and the index behind the last.
Frame = tuple[bytes | memoryview, int, int]


class FrameBuffer:
    """Cuts what arrives into frames, and keeps nothing but the beginning of one that is not complete.

    Frames that lie whole in what arrived are handed out as places in it, without a copy. Memory is bounded by the bytes
    received of one frame: a size that lies allocates nothing.
    """

    __slots__ = ("_kept", "_missing", "max_frame_bytes")

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._kept = bytearray()  # the beginning of a frame, its size included
        self._missing = _SIZE_BYTES  # bytes to come until the next decision about it: its size's, then the frame's

    @property
    def kept_bytes(self) -> int:
        """How many bytes of an incomplete frame are kept."""
        return len(self._kept)

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that ``data`` completes, in order. Run it to its end before feeding more.

        A memoryview in a frame is valid for ever, and keeps the frame's bytes alive. Raises ProtocolViolation, which
        names the size and the limit, for a size of 0 or less or above the limit; the stream cannot go on then.
        """
        at = 0
        end = len(data)
        limit = self.max_frame_bytes
        while self._kept:
            missing = self._missing
            taken = data[at : at + missing]
            self._kept += taken
            at += len(taken)
            self._missing = missing - len(taken)
            if self._missing:
                return
            if len(self._kept) == _SIZE_BYTES:
                (size,) = _SIZE.unpack(self._kept)
                if not 0 < size <= limit:
                    raise self._violation(size)
                self._missing = size
            else:
                whole = memoryview(self._kept).toreadonly()
                self._kept = bytearray()
                yield whole, _SIZE_BYTES, len(whole)
        unpack = _SIZE.unpack_from
        while end - at >= _SIZE_BYTES:
            (size,) = unpack(data, at)
            if not 0 < size <= limit:
                raise self._violation(size)
            start = at + _SIZE_BYTES
            stop = start + size
            if stop > end:
                self._kept += data[at:]
                self._missing = stop - end
                return
            at = stop
            yield data, start, stop
        if at < end:
            self._kept += data[at:]
            self._missing = _SIZE_BYTES - (end - at)

    def _violation(self, size: int) -> ProtocolViolation:
        return ProtocolViolation(f"a frame of {size} bytes, 1 to {self.max_frame_bytes} are allowed")
