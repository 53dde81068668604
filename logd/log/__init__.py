"""Partition logs on files: append, flush, read, recover, retain. No reactor, threads or clock of its own in here."""
