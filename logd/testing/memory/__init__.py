"""Whole clusters in memory, on a clock: brokers, tree, disks, network, threads."""
