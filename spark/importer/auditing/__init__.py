"""The counts of audited imports: what a run has loaded, and what of it is not published yet."""
