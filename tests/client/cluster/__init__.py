"""Tests of logd.client.cluster."""
