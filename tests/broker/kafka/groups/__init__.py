"""Tests of groups of Kafka clients."""
