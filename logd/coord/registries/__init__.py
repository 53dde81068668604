"""What is kept in the coordination tree: brokers, topics, consumers, owners, offsets; a module for each."""
