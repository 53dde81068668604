"""Tests of MessageStream.pause and resume."""

from __future__ import annotations

from twisted.internet.defer import Deferred

from logd.client.consumer.fetching.batches import RawChunk
from tests.client.consumers import ConsumerTestCase


class PauseTests(ConsumerTestCase):
    """A partition that hands nothing over for a while."""

    def test_the_other_partitions_go_on(self) -> None:
        """A paused partition continues where it was, without a loss or a repeat."""
        stream = self.stream()
        chunks: list[RawChunk] = []

        async def read() -> None:
            async for chunk in stream.raw():
                chunks.append(chunk._replace(data=bytes(chunk.data)))
                stream.pause(1)

        Deferred.fromCoroutine(read())
        self.run_for(2.0)
        got = {number: b"".join(c.data for c in chunks if c.partition == number) for number in range(3)}
        self.assertEqual([got[0], got[2]], [bytes(self.logs[0].data), bytes(self.logs[2].data)])
        before = len(got[1])
        self.assertLess(before, len(self.logs[1].data))
        self.run_for(2.0)
        self.assertEqual(sum(len(c.data) for c in chunks if c.partition == 1), before)
        for _ in range(20):
            stream.resume(1)
            self.run_for()
        self.assertEqual(b"".join(c.data for c in chunks if c.partition == 1), bytes(self.logs[1].data))

    def test_seek_while_paused_counts_at_resume(self) -> None:
        """A partition that is handled again later is held back at its position."""
        stream = self.stream([0])
        chunks: list[RawChunk] = []

        async def read() -> None:
            async for chunk in stream.raw():
                chunks.append(chunk)

        Deferred.fromCoroutine(read())
        self.run_for(2.0)
        end = chunks[-1].next_position
        stream.pause(0)
        stream.seek(0, 19)
        self.run_for(2.0)
        self.assertEqual(chunks[-1].next_position, end)
        count = len(chunks)
        stream.resume(0)
        self.run_for(2.0)
        self.assertEqual((chunks[count].position, chunks[-1].next_position), (19, end))
