"""Roles on the user's side of a connection: producer, consumer and its streams, administration, a log observer."""
