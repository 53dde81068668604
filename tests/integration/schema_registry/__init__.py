"""Real registries over a real tree, and the clients of others."""
