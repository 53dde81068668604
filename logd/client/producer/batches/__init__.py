"""The batches of a producer: their messages and sends, and the one that a partition fills."""
