"""Brokers for tests of programs that use any client of Kafka: in the test's process or in one of their own."""
