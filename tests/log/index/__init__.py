"""Tests of logd.log.index."""
