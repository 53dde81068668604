"""Tests of logd.broker.requests."""
