"""Mirrors between two clusters on one clock, harmed by a seed."""
