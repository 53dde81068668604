"""Tests of logd.coord.registries."""
