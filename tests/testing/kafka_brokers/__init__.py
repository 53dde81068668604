"""Tests of the brokers for tests of programs that use Kafka's clients."""
