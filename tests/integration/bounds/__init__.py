"""Real brokers and peers that ask for too much: memory, connections, time."""
