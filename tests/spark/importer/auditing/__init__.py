"""Tests of logd.spark.importer.auditing."""
