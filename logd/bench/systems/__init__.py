"""The systems that people use instead of logd, measured beside it: section 5 of the paper, repeated in one run."""
