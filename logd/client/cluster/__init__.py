"""The brokers as a client knows them: metadata, a link to each, and word of those that are away."""
