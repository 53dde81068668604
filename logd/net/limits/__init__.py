"""Limits on the cost of peers to a server: connections, memory, time."""
