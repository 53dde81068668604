"""The replication of partitions: roles of logs, fetching from leaders, and the controller."""
