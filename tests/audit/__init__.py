"""Tests of logd.audit."""
