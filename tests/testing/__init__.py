"""Tests of what other programs test with."""
