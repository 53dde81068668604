"""The roles of a client: producer, consumer with its streams, administration, and a log observer."""
