"""Tests of the broker's answers, over a disk in memory, threads worked by hand and a clock that stands still."""
