"""The schema registry's nodes in the coordination tree: paths, values, caches, and the changes that decide races."""
