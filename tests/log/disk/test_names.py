"""Tests of logd.log.disk.names: the names of segments, indexes and folders."""

from __future__ import annotations

from twisted.trial.unittest import SynchronousTestCase

from logd.log.disk.names import folder_partition, index_start, segment_name, segment_start


class NamesTests(SynchronousTestCase):
    """Names of files and folders."""

    def test_a_segments_name_has_20_digits(self) -> None:
        """Any other name is no segment."""
        self.assertEqual(segment_name(12), "00000000000000000012.log")
        self.assertEqual(segment_start("00000000000000000012.log"), 12)
        self.assertEqual(index_start("00000000000000000012.index"), 12)
        zeros = "0" * 20
        for name in ("12.log", zeros + "0.log", zeros + ".log.dropped", "-" + zeros[1:] + ".log", "9" * 20 + ".log"):
            self.assertIsNone(segment_start(name), name)
        self.assertIsNone(index_start("x.index"))

    def test_a_folders_name_has_topic_and_partition(self) -> None:
        """The topic ends at the last '-', and a number is written in one way only."""
        self.assertEqual(folder_partition("a-b-10"), ("a-b", 10))
        self.assertEqual(folder_partition("..-0"), None)
        for name in ("a", "a-", "-1", "a-01", "a--1x", "a b-0", "a-2147483648", "a-0\n", "x" * 201 + "-0"):
            self.assertIsNone(folder_partition(name), name)
