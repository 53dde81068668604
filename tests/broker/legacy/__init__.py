"""Tests of logd.broker.legacy."""
