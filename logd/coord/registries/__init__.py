"""The registries of the coordination tree: who is there, and what topics there are."""
