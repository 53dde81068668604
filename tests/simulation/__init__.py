"""Whole clusters in one process on one clock: a seed decides what happens, and much has to hold whatever does."""
