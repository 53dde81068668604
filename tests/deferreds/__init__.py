"""Tests of logd.deferreds: waiting, with Deferreds."""
