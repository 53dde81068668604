"""Tests of the states of partitions, and of the rules by which they change."""
