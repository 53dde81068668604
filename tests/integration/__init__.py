"""Tests with real processes: brokers started by twistd, and the command line."""
