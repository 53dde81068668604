"""A helper that joins the pieces of a frame, for tests that compare its bytes."""

from __future__ import annotations

from collections.abc import Iterable

from logd.protocol.requests.fields import Piece


def joined(pieces: Iterable[Piece]) -> bytes:
    """Return the bytes of a frame in pieces; none of them may be the range of a file."""
    data = b""
    for piece in pieces:
        assert isinstance(piece, bytes | memoryview), piece
        data += piece
    return data
