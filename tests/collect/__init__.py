"""Tests of logd.collect."""
