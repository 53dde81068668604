"""Commands for brokers, topics, consumer groups and the coordination tree."""
