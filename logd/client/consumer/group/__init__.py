"""A consumer's part in a group: streams whose partitions come and go."""
