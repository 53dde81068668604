"""Groups of real Kafka clients over real brokers."""
