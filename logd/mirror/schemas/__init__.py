"""Schemas on their way: a mirror copies those that messages name, with their ids, before the messages."""
