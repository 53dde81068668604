"""Tests of logd.bench.rates."""
