"""The invariants of replication, and the checks of each."""
