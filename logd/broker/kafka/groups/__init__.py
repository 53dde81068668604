"""Groups of today's Kafka clients: the state of a group, the broker's part as a coordinator, and the requests."""
