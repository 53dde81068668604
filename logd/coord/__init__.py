"""The coordination tree: its paths and, as they come, its client, server, registries, assignment and rebalance."""
