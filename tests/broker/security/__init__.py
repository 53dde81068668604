"""Tests of what requests need a right, and which."""
