"""Tests of the listener for clients of today's Kafka, against a whole broker in memory."""
