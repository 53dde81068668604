"""Tests of logd.coord.tree."""
