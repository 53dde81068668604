"""Commands that run Spark: import and sql."""
