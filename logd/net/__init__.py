"""Wires: how bytes and file ranges leave and enter a connection. Knows Twisted; knows nothing of topics' meaning."""
