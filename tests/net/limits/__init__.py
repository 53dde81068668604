"""Tests of logd.net.limits."""
