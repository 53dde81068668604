"""Tests of logd.cli.cluster."""
