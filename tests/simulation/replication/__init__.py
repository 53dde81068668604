"""The simulation of replicated partitions: brokers, networks and disks fail, and nothing acknowledged is lost."""
