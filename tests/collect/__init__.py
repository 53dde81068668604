"""Tests of following files."""
