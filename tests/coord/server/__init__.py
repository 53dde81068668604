"""Tests of logd.coord.server."""
