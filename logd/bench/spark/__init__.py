"""Benches of Spark: of reading a topic, and of imports with a schema registry."""
