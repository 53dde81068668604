"""The producer: queues of batches, requests in flight, and the memory that they may use."""
