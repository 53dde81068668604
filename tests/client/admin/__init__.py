"""Tests of logd.client.admin."""
