"""Tests of logd.log.producers."""
