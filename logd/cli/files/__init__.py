"""Commands for the files of a data directory: verify, dump, repair."""
