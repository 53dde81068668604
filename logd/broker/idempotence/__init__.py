"""Idempotent producers: what each has sent to each partition, and the ids that are given to them."""
