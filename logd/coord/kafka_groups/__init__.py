"""Groups of today's Kafka clients in the coordination tree: the coordinator's claim, and the committed positions."""
