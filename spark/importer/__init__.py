"""``logd import``: loads what a topic has got since the last run into files, data and offsets by one rename."""
