"""Damage in stored logs: how it is found, judged and repaired."""
