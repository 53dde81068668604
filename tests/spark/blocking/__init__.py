"""Tests of the blocking client in Spark's processes: its producer, answers of brokers, and brokers that are silent."""
