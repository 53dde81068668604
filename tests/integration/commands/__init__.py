"""The commands, each a process of its own."""
