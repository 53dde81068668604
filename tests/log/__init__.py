"""Tests of logd.log."""
