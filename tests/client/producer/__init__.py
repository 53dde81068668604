"""Tests of logd.client.producer."""
