"""Tests of logd.client.consumer.group."""
