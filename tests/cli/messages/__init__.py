"""Tests of logd.cli.messages."""
