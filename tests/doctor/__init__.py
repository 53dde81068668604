"""Tests of logd.doctor."""
