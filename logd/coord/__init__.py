"""The coordination tree: its paths, client, server, registries, assignment and rebalance."""
