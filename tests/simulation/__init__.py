"""Whole clusters in one process on one clock: a seed decides the events, and every promise is checked in each."""
