"""The actors of a simulation: producers, consumers, members, strangers, and operators of the cluster."""
