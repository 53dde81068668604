"""Whole clusters in one process on one clock, to which a seed decides what happens; and what has to hold whatever does."""
