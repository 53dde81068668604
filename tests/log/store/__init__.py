"""Tests of logd.log.store."""
