"""Tests of syncs of many partitions at once."""
