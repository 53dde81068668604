"""Imports of typed values: their schemas, how these may change over runs, and messages that cannot be decoded."""
