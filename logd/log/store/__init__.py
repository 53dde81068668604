"""The data directory as a whole: its identity, and all partition logs: opened, created, deleted and watched."""
