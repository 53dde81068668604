"""Tests of logd.coord.groups."""
