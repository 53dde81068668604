"""Tests of logd.coord.inprocess."""
