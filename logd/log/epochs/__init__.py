"""Leader epochs of a replicated log: where each begins, in a file and in the log itself."""
