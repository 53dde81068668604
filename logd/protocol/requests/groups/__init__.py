"""Requests of members of consumer groups."""
