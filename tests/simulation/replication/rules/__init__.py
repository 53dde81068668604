"""The rules of replication, switched off one at a time."""
