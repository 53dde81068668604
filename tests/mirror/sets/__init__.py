"""Tests of logd.mirror.sets."""
