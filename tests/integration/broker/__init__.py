"""Real brokers: kills, disks, losses, TLS, and several brokers over one tree."""
