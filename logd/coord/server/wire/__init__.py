"""ZooKeeper's client protocol: frames and records to bytes and back."""
