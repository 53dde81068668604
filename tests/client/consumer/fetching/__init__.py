"""Tests of logd.client.consumer.fetching."""
