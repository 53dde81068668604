"""Prometheus metrics of a broker, of its partitions, and of its coordination."""
