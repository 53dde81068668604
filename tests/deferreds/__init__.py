"""Tests of the words for waiting."""
