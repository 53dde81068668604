"""Tests of logd.protocol.requests."""
