"""The integration tests of Kafka's clients themselves, run against a broker of logd."""
