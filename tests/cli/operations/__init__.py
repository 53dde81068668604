"""Tests of logd.cli.operations."""
