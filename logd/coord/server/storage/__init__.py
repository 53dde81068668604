"""A durable tree in a folder: journal, snapshots, recovery and salvage."""
