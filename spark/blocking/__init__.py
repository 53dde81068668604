"""A blocking client for Spark's workers: connections, metadata, ranges of ids, rows, sends."""
