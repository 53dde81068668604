"""Tests of logd.mirror."""
