"""The work of Spark's tasks: options in, Arrow batches out; no Twisted, no pyspark."""
