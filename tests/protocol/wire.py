"""Bytes as they are on the wire, for tests that compare them."""

from __future__ import annotations

from collections.abc import Iterable

from logd.protocol.requests.fields import Piece


def joined(pieces: Iterable[Piece]) -> bytes:
    """Return the bytes of a frame in pieces, none of which is the range of a file."""
    data = b""
    for piece in pieces:
        assert isinstance(piece, bytes | memoryview), piece
        data += piece
    return data
