"""The replication of partitions: roles of logs, and fetching from leaders."""
