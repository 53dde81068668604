"""Real clients of Kafka, each with a small program that produces and consumes, for the suite and ``make clients``."""
