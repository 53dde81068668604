"""Tests of logd.net."""
