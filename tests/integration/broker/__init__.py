"""Real brokers: kills, disks, limits, hostile peers, several of them."""
