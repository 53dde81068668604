"""Tests of logd.bench."""
