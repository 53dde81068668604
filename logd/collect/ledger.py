"""Keeps the pieces in flight, and the mark up to which each source is acknowledged without a gap."""

from __future__ import annotations

from logd.collect.source import Piece


class Ledger:
    """Counts pieces, and moves a source's acknowledged mark when all pieces before it are acknowledged."""

    def __init__(self) -> None:
        #: Pieces in flight.
        self.open = 0
        self.lines = 0
        self.acknowledged_lines = 0
        self.bytes = 0
        #: True when an acknowledged mark has moved since the state was saved.
        self.changed = False

    def sent(self, piece: Piece) -> None:
        """Record that a piece was sent; pieces of one source are sent in order."""
        piece.source.pending.append(piece)
        self.open += 1
        self.lines += len(piece.lines)
        self.bytes += piece.bytes

    def acknowledged(self, piece: Piece) -> None:
        """Record that a piece was acknowledged, in any order."""
        self.open -= 1
        self.acknowledged_lines += len(piece.lines)
        piece.acknowledged = True
        piece.lines = []
        source = piece.source
        pending = source.pending
        while pending and pending[0].acknowledged:
            source.acknowledged = pending.popleft().mark
            self.changed = True
