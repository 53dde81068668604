"""Tests of logd.client.audit."""
