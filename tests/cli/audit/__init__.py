"""Tests of logd.cli.audit."""
