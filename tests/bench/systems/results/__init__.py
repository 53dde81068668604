"""Tests of logd.bench.systems.results."""
