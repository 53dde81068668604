"""ZooKeeper's client protocol: encodes and decodes frames and records."""
