"""The consumer and its streams, alone or in a group."""
