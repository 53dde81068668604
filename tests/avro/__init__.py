"""Tests of logd.avro."""
