"""Tests of logd.client.consumer."""
