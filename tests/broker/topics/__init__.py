"""Tests of logd.broker.topics."""
