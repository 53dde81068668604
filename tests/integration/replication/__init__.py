"""Integration tests of replication: real brokers, signals and disks."""
