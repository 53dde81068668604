"""Real brokers and peers that want too much of them."""
