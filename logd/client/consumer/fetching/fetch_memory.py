"""The memory of one consumer for fetched bytes: how much one partition may have of it."""

from __future__ import annotations

from attrs import define, field

from logd.client.consumer.fetching.fetch_plan import SMALL, FetchEntry

#: Bytes that may be held for a partition at least, however many partitions there are.
LEAST_SHARE = 256
#: Of many partitions, those behind are fetched a few at a time, so that each may have at least this many bytes. A piece
#: of a partition costs client and broker some 50 us, whatever its size.
LEAST_PIECE = 64 << 10


@define(eq=False)
class FetchMemory:
    """Counts the bytes held and the bytes that answers may bring, and shares ``total`` of them among partitions.

    Few partitions have equal parts. Of more than SMALL, each has its part of one half, which is enough for those at the
    ends of their logs; those that are behind share what is free. So it does not matter to them how many are watched.
    """

    total: int
    _claimed: int = field(default=0, init=False)

    def share(self, watched: int) -> int:
        """Return the bytes that each of ``watched`` partitions may hold in any case."""
        whole = self.total if watched <= SMALL else self.total // 2
        return max(LEAST_SHARE, whole // max(1, watched))

    def pieces(self) -> int:
        """Return the number of pieces, of LEAST_PIECE bytes each, for which there is room."""
        return max(0, self.total - self._claimed) // LEAST_PIECE

    @property
    def enough_pieces(self) -> int:
        """Return the number of pieces from which on a request is worth its cost: a quarter of all."""
        return self.total // LEAST_PIECE // 4

    def share_behind(self, watched: int, count: int) -> int:
        """Return the bytes that each of ``count`` partitions behind the ends of their logs may hold."""
        share = self.share(watched)
        return share if watched <= SMALL else max(share, (self.total - self._claimed) // max(1, count))

    def count(self, entry: FetchEntry) -> None:
        """Count the bytes of a partition again, as they may have changed."""
        claimed = entry.fetch.claimed
        self._claimed += claimed - entry.claimed
        entry.claimed = claimed

    def release(self, entry: FetchEntry) -> None:
        """Count the bytes of a partition no longer."""
        self._claimed -= entry.claimed
        entry.claimed = 0
