"""The broker's answers: what a request means for the logs. One process, one reactor."""
