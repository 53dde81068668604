"""Clients of today's Kafka in the simulator: they produce and fetch while all faults hit them."""
