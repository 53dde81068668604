"""Requests about the replicas of partitions, as operators send them."""
