"""Clients of Kafka 0.7 that find brokers, topics and each other in ZooKeeper."""
