"""Pairs of positions on both clusters, and the translation of a group by them."""
