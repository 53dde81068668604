"""Tests of logd.spark.importer.compaction."""
