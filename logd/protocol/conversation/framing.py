"""Frames from a stream: int32 size, then that many bytes. The cost is linear in the bytes received."""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

from logd.errors import ProtocolViolation

_SIZE = Struct(">i")
_SIZE_BYTES = _SIZE.size

#: Pieces of at least this size are kept as they are, which costs one copy instead of two.
_LARGE_PIECE_BYTES = 16 << 10

#: The default frame limit: 16 MiB.
DEFAULT_MAX_FRAME_BYTES = 16 << 20

#: A frame's bytes behind its size: where they are, the index of the first, and the index behind the last.
Frame = tuple[bytes | memoryview, int, int]


class FrameBuffer:
    """Cuts received data into frames, and keeps only the beginning of an incomplete one.

    A frame that is complete in the received data is returned as a range of it, without a copy. Memory is bounded by the
    bytes received of one frame: a false size allocates nothing.
    """

    __slots__ = ("_kept", "_kept_bytes", "_missing", "max_frame_bytes", "passed", "refused_size")

    def __init__(self, max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES) -> None:
        self.max_frame_bytes = max_frame_bytes
        #: The size that was refused, 0 while none was.
        self.refused_size = 0
        #: The place in its data at which ``feed`` goes on, if that is behind the frame just yielded: the taker of that
        #: frame sets it after taking further frames of the data itself.
        self.passed = 0
        #: The beginning of a frame, its size included. Large pieces stay as they came and are joined once; small ones
        #: are gathered in a bytearray, or a peer that sends byte by byte would make us keep an object for each.
        self._kept: list[bytes | bytearray] = []
        self._kept_bytes = 0
        self._missing = _SIZE_BYTES  # bytes to come until the next decision about it: its size's, then the frame's

    @property
    def kept_bytes(self) -> int:
        """The number of bytes kept of an incomplete frame."""
        return self._kept_bytes

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that ``data`` completes, in order. Run it to its end before feeding more.

        A memoryview in a frame is valid for ever, and keeps the frame's bytes alive. Raises ProtocolViolation, which
        names the size and the limit, for a size of 0 or less or above the limit; the stream cannot go on then.
        """
        at = self.passed = 0
        end = len(data)
        limit = self.max_frame_bytes
        while self._kept_bytes:
            taken = data[at : at + self._missing]
            at += len(taken)
            self._keep(taken, self._missing - len(taken))
            if self._missing:
                return
            if self._kept_bytes == _SIZE_BYTES:
                (size,) = _SIZE.unpack(b"".join(self._kept))
                if not 0 < size <= limit:
                    raise self._violation(size)
                self._missing = size
            else:
                kept, self._kept = self._kept, []
                self._kept_bytes = 0
                whole = memoryview(b"".join(kept))
                yield whole, _SIZE_BYTES, len(whole)
        unpack = _SIZE.unpack_from
        while end - at >= _SIZE_BYTES:
            (size,) = unpack(data, at)
            if not 0 < size <= limit:
                raise self._violation(size)
            start = at + _SIZE_BYTES
            stop = start + size
            if stop > end:
                self._keep(data[at:], stop - end)
                return
            at = stop
            yield data, start, stop
            if self.passed > at:
                at = self.passed
        if at < end:
            self._keep(data[at:], _SIZE_BYTES - (end - at))

    def _keep(self, piece: bytes, missing: int) -> None:
        self._missing = missing
        self._kept_bytes += len(piece)
        kept = self._kept
        if len(piece) >= _LARGE_PIECE_BYTES:
            kept.append(piece)
        elif kept and isinstance(kept[-1], bytearray):
            kept[-1] += piece
        else:
            kept.append(bytearray(piece))

    def _violation(self, size: int) -> ProtocolViolation:
        self.refused_size = size
        return ProtocolViolation(f"a frame of {size} bytes, 1 to {self.max_frame_bytes} are allowed")
