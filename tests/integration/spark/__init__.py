"""A real Spark with real brokers."""
