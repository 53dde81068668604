"""Looks at a machine, a broker and a cluster for what would stop them, slow them down or lose data."""
