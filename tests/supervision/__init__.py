"""Tests of logd.supervision."""
