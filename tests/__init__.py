"""Tests, laid out as the tree that they test."""
