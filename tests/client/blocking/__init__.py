"""Tests of logd.client.blocking."""
