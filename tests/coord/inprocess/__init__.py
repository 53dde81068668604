"""Tests of logd.testing.inprocess."""
