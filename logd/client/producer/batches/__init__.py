"""The batches of a producer: their formats, their messages and sends, and the batch that a partition fills."""
