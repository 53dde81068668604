"""Tests of logd.client.consumer.group.entry_boundaries: entries are followed through pieces that are cut anywhere."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.client.consumer.group.entry_boundaries import EntryBoundaries
from logd.protocol.loops import encode_set
from logd.protocol.message import Message


class EntryBoundariesTests(SynchronousTestCase):
    """``EntryBoundaries``."""

    @given(st.lists(st.integers(0, 40), max_size=12), st.lists(st.integers(1, 60), max_size=40), st.integers(0, 1000))
    def test_the_boundary_follows_the_last_whole_entry(self, sizes: list[int], cuts: list[int], start: int) -> None:
        """A commit inside an entry would let the next member begin in the middle of it."""
        data = encode_set([Message(b"x" * size) for size in sizes])
        ends = [start]
        for size in sizes:
            ends.append(ends[-1] + 13 - 4 + 4 + size - 4)
        boundaries = EntryBoundaries(start)
        at = 0
        for cut in [*cuts, len(data)]:
            piece = data[at : at + cut]
            at += len(piece)
            self.assertEqual(boundaries.passed(memoryview(piece)), max(end for end in ends if end <= start + at))
