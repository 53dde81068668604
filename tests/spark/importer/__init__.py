"""Tests of the importer without Spark: offsets, chains, plans, targets."""
