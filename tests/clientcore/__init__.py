"""Tests of logd.clientcore."""
