"""Processes that a bench starts: load, disturbances, members, slow disks."""
