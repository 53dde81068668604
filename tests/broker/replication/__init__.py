"""Tests of replication on the broker."""
