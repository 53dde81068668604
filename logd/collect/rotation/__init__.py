"""Rotated files: found by name, distinguished from copies, remembered."""
