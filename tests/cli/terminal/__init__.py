"""Tests of logd.cli.terminal."""
