"""Tests of the targets of an import: what is merged in them, and HDFS."""
