"""The broker: handles requests against the logs, in one process with one reactor."""
