"""Tests of logd.client.consumer.group.raw_progress: positions that may be committed while bytes pass raw."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.client.consumer.fetching.batches import RawChunk
from logd.client.consumer.group.raw_progress import RawProgress
from logd.protocol.loops import encode_set
from logd.protocol.message import Message

ENTRY = encode_set([Message(b"message")])
SIZE = len(ENTRY)
START = 1000


class RawProgressTests(SynchronousTestCase):
    """Three entries, cut in the middle of the second."""

    def setUp(self) -> None:
        """Cut them."""
        data, cut = ENTRY * 3, SIZE + 5
        self.first = RawChunk("t", 0, START, data[:cut], START + len(data))
        self.second = RawChunk("t", 0, START + cut, data[cut:], START + len(data))

    def test_last_chunk_is_not_handled(self) -> None:
        """A chunk counts as handled once the application asks for the next, and only its whole entries."""
        progress = RawProgress(START, START)
        progress.passed(self.first, reported=False)
        self.assertEqual((progress.handled, progress.position, progress.end), (START, START + SIZE, START + SIZE + 5))
        progress.asked()
        progress.passed(self.second, reported=False)
        self.assertEqual((progress.handled, progress.position), (START + SIZE, START + 3 * SIZE))

    def test_begin_inside_wrapper(self) -> None:
        """A position inside the first entry is not gone behind, though the chunk begins before it."""
        progress = RawProgress(START + SIZE + 2, START)
        progress.passed(self.first, reported=False)
        progress.asked()
        self.assertEqual(progress.handled, START + SIZE + 2)

    def test_reported_chunks(self) -> None:
        """A reported chunk gives the boundary behind it, once; a later one makes the earlier ones unknown."""
        progress = RawProgress(START, START)
        progress.passed(self.first, reported=True)
        progress.passed(self.second, reported=True)
        self.assertEqual([progress.behind(self.first) for _ in range(2)], [START + SIZE, -1])
        self.assertEqual(progress.behind(self.second), START + 3 * SIZE)

    def test_later_chunk_reported_first(self) -> None:
        """After a later chunk was reported, an earlier one is not known any more."""
        progress = RawProgress(START, START)
        progress.passed(self.first, reported=True)
        progress.passed(self.second, reported=True)
        self.assertEqual((progress.behind(self.second), progress.behind(self.first)), (START + 3 * SIZE, -1))
