"""Audit: counts of messages by window of time, tier and server, and their comparison. No I/O, no clock."""
