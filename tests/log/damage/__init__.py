"""Tests of logd.log.damage."""
