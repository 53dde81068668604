"""Tests of logd.backup."""
