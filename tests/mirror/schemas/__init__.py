"""Tests of logd.mirror.schemas."""
