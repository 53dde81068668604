"""Tests of logd.log.recovery."""
