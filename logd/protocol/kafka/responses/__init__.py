"""Responses to Kafka's clients that may be large, written in pieces."""
