"""Tests of logd.cli.bench."""
