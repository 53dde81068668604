"""The actors of a simulation: producers, consumers, members, strangers, and those who operate the cluster."""
