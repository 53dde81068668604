"""Tests of logd.protocol.loops."""
