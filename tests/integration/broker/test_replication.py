"""Replication with real brokers and a real network: a partition survives its broker."""
