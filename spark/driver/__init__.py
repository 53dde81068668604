"""The data source and sink as Spark's driver sees them."""
