"""Tests of mirrors between clusters of real processes."""
