"""Commands that send and read messages: produce, consume, collect."""
