"""Tests of logd.coord."""
