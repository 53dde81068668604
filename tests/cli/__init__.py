"""Tests of logd.cli."""
