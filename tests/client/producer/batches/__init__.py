"""Tests of logd.client.producer.batches."""
