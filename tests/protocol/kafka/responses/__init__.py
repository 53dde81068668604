"""Tests of logd.protocol.kafka.responses."""
