"""Damage in stored logs: walks that find it, evidence, inspection, repair."""
