"""Tests of logd.broker.listening."""
