"""Tests of logd.testing, the package that other projects test with."""
