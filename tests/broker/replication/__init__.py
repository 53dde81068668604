"""Tests of replication on brokers in memory."""
