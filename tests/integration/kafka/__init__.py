"""Tests with the clients of today's Kafka, against brokers that run for real."""
