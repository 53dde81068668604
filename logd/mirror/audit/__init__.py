"""The audit of a mirror: counts of what it has copied."""
