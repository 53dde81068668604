"""Conversations: what the bytes of one connection mean, in their order, on either side."""
