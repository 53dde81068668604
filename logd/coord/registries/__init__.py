"""The registries of the coordination tree: brokers, topics, consumers, owners, offsets and stored ends."""
