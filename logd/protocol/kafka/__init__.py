"""Kafka's protocol without input and output: its record batches and message sets, and its requests."""
