"""Tests of logd.spark.importer without Spark: offsets, chains, plans, targets."""
