"""Mirrors: copy topics from one cluster to another, as a group of consumers whose sets move as they are stored."""
