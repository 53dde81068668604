"""Tests of logd.config."""
