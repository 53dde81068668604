"""The commands against real servers, each command a process of its own."""
