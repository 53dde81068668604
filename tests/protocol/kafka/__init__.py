"""Tests of logd.protocol.kafka."""
