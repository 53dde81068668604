"""What is on its way, and up to where each source is acknowledged without a gap."""

from __future__ import annotations

from logd.collect.source import Piece


class Ledger:
    """Counts pieces. A source's place moves over what is acknowledged from its beginning on, whatever came first."""

    def __init__(self) -> None:
        #: Pieces that are not acknowledged.
        self.open = 0
        self.lines = 0
        self.acknowledged_lines = 0
        self.bytes = 0
        #: Whether a place moved that a state file should know.
        self.changed = False

    def sent(self, piece: Piece) -> None:
        """A piece is on its way; those of one source in order."""
        piece.source.pending.append(piece)
        self.open += 1
        self.lines += len(piece.lines)
        self.bytes += piece.bytes

    def acknowledged(self, piece: Piece) -> None:
        """A piece is where it should be."""
        self.open -= 1
        self.acknowledged_lines += len(piece.lines)
        piece.acknowledged = True
        piece.lines = []
        source = piece.source
        pending = source.pending
        while pending and pending[0].acknowledged:
            source.acknowledged = pending.popleft().mark
            self.changed = True
