"""Requests and responses: one module for each, and the table of all."""
