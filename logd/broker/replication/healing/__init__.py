"""The healing of damaged replicas with the bytes of others: reading those, answering such reads, replacing segments."""
