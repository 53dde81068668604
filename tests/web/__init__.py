"""Tests of logd.web."""
