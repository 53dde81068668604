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
        """Cut the entries."""
        data, cut = ENTRY * 3, SIZE + 5
        self.first = RawChunk("t", 0, START, data[:cut], START + len(data))
        self.second = RawChunk("t", 0, START + cut, data[cut:], START + len(data))

    def test_the_last_chunk_is_not_handled_yet(self) -> None:
        """A chunk counts as handled once the application asks for the next, and only its whole entries."""
        progress = RawProgress(START, START)
        progress.passed(self.first, reported=False)
        self.assertEqual((progress.handled, progress.position, progress.end), (START, START + SIZE, START + SIZE + 5))
        progress.asked()
        progress.passed(self.second, reported=False)
        self.assertEqual((progress.handled, progress.position), (START + SIZE, START + 3 * SIZE))

    def test_a_commit_never_goes_back_inside_an_entry(self) -> None:
        """The chunk begins before it, since a chunk begins with a whole entry."""
        progress = RawProgress(START + SIZE + 2, START)
        progress.passed(self.first, reported=False)
        progress.asked()
        self.assertEqual(progress.handled, START + SIZE + 2)

    def test_a_reported_chunk_gives_its_boundary_once(self) -> None:
        """A later one makes the earlier ones unknown."""
        progress = RawProgress(START, START)
        progress.passed(self.first, reported=True)
        progress.passed(self.second, reported=True)
        self.assertEqual([progress.behind(self.first) for _ in range(2)], [START + SIZE, -1])
        self.assertEqual(progress.behind(self.second), START + 3 * SIZE)

    def test_a_chunk_of_a_log_that_was_left_makes_nothing_unknown(self) -> None:
        """The log has lost its end, and is read again from further ahead: what is in flight of before is reported."""
        progress = RawProgress(START, START)
        progress.passed(self.first, reported=True)
        self.assertEqual(progress.behind(self.second._replace(position=50 * START)), -1)
        self.assertEqual(progress.behind(self.first), START + SIZE)

    def test_a_later_report_makes_earlier_chunks_unknown(self) -> None:
        """Handling a later chunk includes the earlier ones."""
        progress = RawProgress(START, START)
        progress.passed(self.first, reported=True)
        progress.passed(self.second, reported=True)
        self.assertEqual((progress.behind(self.second), progress.behind(self.first)), (START + 3 * SIZE, -1))
