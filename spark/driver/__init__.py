"""The data source and sink on Spark's driver."""
