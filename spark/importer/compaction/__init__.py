"""``logd import --compact``: merges the runs of a finished date or hour into one run with few files."""
