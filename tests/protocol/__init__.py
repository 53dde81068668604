"""Tests of logd.protocol: no sockets, no reactor."""
