"""Clients of Kafka 0.7 that find real brokers in the coordination tree."""
