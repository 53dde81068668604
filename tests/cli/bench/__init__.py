"""Tests of logd.cli.bench.bench."""
