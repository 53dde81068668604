"""The demonstration, ``python -m demo``: publish, consume and import logs, and compare the counts and digests."""
