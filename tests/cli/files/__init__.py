"""Tests of logd.cli.files."""
