"""Administration by clients of today's Kafka: topics, settings by Kafka's names, records and directories."""
