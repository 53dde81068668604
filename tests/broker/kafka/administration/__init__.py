"""Tests of administration by clients of Kafka."""
