"""The sparse index of a segment, and searches that use it."""
