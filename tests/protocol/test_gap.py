"""Tests of logd.protocol.gap."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from twisted.trial.unittest import SynchronousTestCase

from logd.protocol.entry import encode_gap, gap_length


class GapTests(SynchronousTestCase):
    """What stands in the place of an entry that was removed."""

    def test_vector(self) -> None:
        """The smallest gap is nine bytes."""
        self.assertEqual(encode_gap(9).hex(), "000000057f512e2b93")

    @settings(deadline=None)
    @given(st.integers(9, (1 << 31) - 1))
    def test_round_trip(self, total: int) -> None:
        """The head alone says how much is filled."""
        self.assertEqual(gap_length(b"??" + encode_gap(total), 2), total)

    def test_refuses_sizes(self) -> None:
        """Nothing below nine bytes or above an int32 can be a gap."""
        self.assertRaises(ValueError, encode_gap, 8)
        self.assertRaises(ValueError, encode_gap, 1 << 31)

    def test_no_single_change_of_the_head_holds(self) -> None:
        """Any other value of any of the nine bytes makes it no gap."""
        head = encode_gap(300)
        for at in range(9):
            for change in range(1, 256):
                damaged = head[:at] + bytes((head[at] ^ change,)) + head[at + 1 :]
                self.assertEqual(gap_length(damaged), 0)

    def test_short(self) -> None:
        """Eight bytes are too few to tell."""
        self.assertEqual(gap_length(encode_gap(9)[:8]), 0)
