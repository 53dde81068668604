"""The progress of a group through one partition whose bytes are handed over raw, counted in whole entries."""

from __future__ import annotations

from logd.client.consumer.fetching.batches import RawChunk
from logd.client.consumer.fetching.partition_fetch import PartitionFetch
from logd.client.consumer.group.entry_boundaries import EntryBoundaries


class RawProgress:
    """The entry boundaries behind the chunks handed over, and the position up to which they are handled."""

    def __init__(self, begin: int, chunk_position: int, find_boundaries: bool = True) -> None:
        """Begin at ``begin``, which may be inside the wrapper at ``chunk_position``, where the first chunk begins.

        Without ``find_boundaries``, reports of chunks come with their boundaries.
        """
        #: The position up to which messages are handled while the last chunk is in the application's hands.
        self.handled = begin
        self._boundaries = EntryBoundaries(chunk_position) if find_boundaries else None
        self._end = chunk_position
        #: The boundary behind each chunk that the application has not reported yet, by the chunk's next position.
        self._unreported: dict[int, int] = {}

    @property
    def end(self) -> int:
        """Return the position at which the next chunk begins."""
        return self._end

    @property
    def position(self) -> int:
        """Return the position up to which messages are handled once the last chunk is."""
        return self.handled if self._boundaries is None else max(self._boundaries.position, self.handled)

    def passed(self, chunk: RawChunk, *, reported: bool) -> None:
        """Add the chunk handed over next. ``reported``: the application will report chunks as handled."""
        boundary = -1 if self._boundaries is None else self._boundaries.passed(chunk.data)
        self._end = chunk.next_position
        if reported:
            self._unreported[chunk.next_position] = boundary

    def asked(self) -> None:
        """Count the last chunk as handled, since the application asks for the next one."""
        self.handled = self.position

    def behind(self, chunk: RawChunk, up_to: int | None = None) -> int:
        """Return the boundary behind a chunk reported as handled, and forget earlier chunks; -1 if it is not known.

        ``up_to`` is the boundary for the one who reports, where none is looked for here.
        """
        boundary = self._unreported.get(chunk.next_position)
        if boundary is None:  # it was reported before, or is of a log that was left, whose positions mean nothing here
            return -1
        if self._boundaries is None and up_to is not None:
            boundary = up_to
        for end in [end for end in self._unreported if end <= chunk.next_position]:
            del self._unreported[end]
        return boundary


class RawReading(dict[PartitionFetch, RawProgress]):
    """The progress in each partition of a stream that is read raw."""

    #: True if the ends of entries are looked for; else they come with the reports.
    find_boundaries = True
