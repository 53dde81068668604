"""Tests of logd.bench.systems."""
