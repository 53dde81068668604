"""Tests of logd.client."""
