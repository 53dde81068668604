"""Tests of logd.protocol.conversation."""
