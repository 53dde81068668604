"""Tests of a group's stream whose raw bytes the application divides into entries itself."""

from __future__ import annotations

from collections.abc import AsyncIterator

from twisted.internet.defer import Deferred

from logd.client.consumer.fetching.batches import RawChunk
from tests.client.groups import Application, ClientGroupTestCase

#: Bytes of one of the topic's entries: length, magic, crc and "t-0-0000".
ENTRY = 4 + 1 + 4 + 8


class RawBoundariesTests(ClientGroupTestCase):
    """``GroupStream.raw`` without ``find_boundaries``."""

    def position(self, app: Application, partition: int) -> int:
        """Commit, and return the stored position."""
        committing = app.consumer.commit()
        self.run_for(0.05)
        self.successResultOf(committing)
        return int(self.committed(partition))

    def next(self, chunks: AsyncIterator[RawChunk]) -> RawChunk:
        """Return the next chunk."""

        async def chunk() -> RawChunk:
            return await anext(chunks)

        return self.successResultOf(Deferred.fromCoroutine(chunk()))

    def test_each_chunk_is_reported_once_with_its_boundary(self) -> None:
        """A chunk of before the last seek, or one that was never handed over, counts for nothing."""
        app = Application(self, commit_interval=0.0, commit="handled", fetch_bytes=100)
        self.run_for(0.5)
        (stream,) = app.streams
        chunks = stream.raw(find_boundaries=False)
        first = self.next(chunks)
        where, boundary = first.partition, first.next_position // ENTRY * ENTRY
        stream.handled(first)
        self.assertEqual(self.position(app, where), 0)
        stream.handled(first._replace(data=first.data[:-1]), boundary)
        self.assertEqual(self.position(app, where), 0)
        stream.handled(first, boundary)
        self.assertEqual(self.position(app, where), 0)  # its report without a boundary was the one

        def next_of_the_partition() -> RawChunk:
            while True:
                chunk = self.next(chunks)
                if chunk.partition == where:
                    return chunk
                self.run_for(0.1)

        second = next_of_the_partition()
        stream.handled(second._replace(position=second.next_position, data=b""), 2 * boundary)
        self.assertEqual(self.position(app, where), 2 * boundary)
        third = next_of_the_partition()
        stream.seek(where, ENTRY)
        self.assertEqual(self.position(app, where), ENTRY)
        next_of_the_partition()
        stream.handled(third, 3 * boundary)
        self.assertEqual(self.position(app, where), ENTRY)

    def test_a_stream_that_goes_back_counts_as_before(self) -> None:
        """Until it is told that all before that place is handled, as by a mirror whose counts are not published yet."""
        app = Application(self, commit_interval=0.0, commit="handled", fetch_bytes=100)
        self.run_for(0.5)
        (stream,) = app.streams
        chunks = stream.raw(find_boundaries=False)
        first = self.next(chunks)
        where = first.partition
        behind = stream.go_back(where, 2 * ENTRY)
        self.assertEqual(self.position(app, where), 0)
        stream.handled(first, ENTRY)
        self.assertEqual(self.position(app, where), 0)
        stream.handled(behind, 2 * ENTRY)
        self.assertEqual(self.position(app, where), 2 * ENTRY)

    def test_a_stream_that_goes_back_into_an_entry_counts_as_before(self) -> None:
        """The chunk that follows begins with that entry, before the place."""
        app = Application(self, commit_interval=0.0, commit="handled", fetch_bytes=100)
        self.run_for(0.5)
        (stream,) = app.streams
        chunks = stream.raw(find_boundaries=False)
        where = self.next(chunks).partition
        stream.go_back(where, 2 * ENTRY + 3)
        self.run_for(0.5)
        chunk = self.next(chunks)
        while chunk.partition != where:
            chunk = self.next(chunks)
        self.assertEqual(chunk.position, 2 * ENTRY)
        self.assertEqual(self.position(app, where), 0)
        stream.handled(chunk, 3 * ENTRY)
        self.assertEqual(self.position(app, where), 3 * ENTRY)

    def test_a_jump_back_right_after_going_back(self) -> None:
        """A report of the place before counts for nothing, and the chunk behind the jump is in work."""
        app = Application(self, commit_interval=0.0, commit="handled", fetch_bytes=100)
        self.run_for(0.5)
        (stream,) = app.streams
        chunks = stream.raw(find_boundaries=False)
        where = self.next(chunks).partition
        behind = stream.go_back(where, 30 * ENTRY)
        stream.handled(behind, 30 * ENTRY)
        behind = stream.go_back(where, 1000 * ENTRY)
        self.run_for(0.5)
        chunk = self.next(chunks)
        while chunk.partition != where:
            chunk = self.next(chunks)
            self.run_for(0.1)
        self.assertEqual(len(chunk.losses), 1)
        stream.handled(behind, 1000 * ENTRY)
        self.assertEqual(self.position(app, where), chunk.position)
        stream.handled(chunk, chunk.position + ENTRY)
        self.assertEqual(self.position(app, where), chunk.position + ENTRY)
