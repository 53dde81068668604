"""Backups of what the coordination tree knows of a cluster: all but the messages."""
