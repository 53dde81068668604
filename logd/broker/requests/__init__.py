"""Handlers of requests: one for each kind, and what they share."""
