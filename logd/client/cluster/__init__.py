"""A client's view of its cluster: metadata, a link to each broker, and warnings about brokers that are away."""
