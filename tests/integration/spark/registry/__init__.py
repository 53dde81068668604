"""Tests of Spark with a schema registry."""
