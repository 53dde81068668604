"""The group side of a consumer: streams whose partitions come and go."""
