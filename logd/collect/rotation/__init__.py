"""Rotated files: found by their names, told from copies, remembered."""
