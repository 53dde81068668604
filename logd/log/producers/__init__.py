"""Idempotent producers of a partition: the states of what they have sent, and the snapshots of these."""
