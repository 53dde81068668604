"""Audit on the clients' side: counts of what one client sends or reads, and their events on the way to ``_audit``."""
