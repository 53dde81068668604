"""Tests of logd.log.disk."""
