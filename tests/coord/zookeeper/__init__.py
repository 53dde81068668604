"""Tests of logd.coord.zookeeper."""
