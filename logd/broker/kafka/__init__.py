"""The listener for clients of today's Kafka: its requests over the handlers and logs that native clients use."""
