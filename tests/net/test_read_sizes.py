"""Tests of logd.net.limits.read_sizes."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.net.limits.read_sizes import FEW_BYTES, MOST_REQUESTS, READ_BYTES, TINY_BYTES, read_size


class ReadSizeTests(SynchronousTestCase):
    """The size of the next read."""

    def test_the_first_read_is_small(self) -> None:
        """Nothing is known yet of what the peer sends."""
        self.assertEqual(read_size(None), FEW_BYTES)

    def test_a_read_brings_a_bounded_number_of_requests(self) -> None:
        """Of the size of those before."""
        for each in (16, 22, 64, 65, 100, 300, 5000):
            for requests in (1, 30):
                found = read_size(None, each * requests, requests)
                self.assertLessEqual(found // each, MOST_REQUESTS)
                self.assertEqual(found == FEW_BYTES, each <= TINY_BYTES, each)

    def test_a_busy_producer_is_read_in_large_pieces(self) -> None:
        """Also where a read has brought no end of a request."""
        self.assertEqual(read_size(None, FEW_BYTES), READ_BYTES)
        self.assertEqual(read_size(None, 300, 1), READ_BYTES)
        self.assertEqual(read_size(None, READ_BYTES, 900), READ_BYTES)
