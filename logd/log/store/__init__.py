"""The data directory as a whole: identity, all partition logs, opened, made, deleted and watched."""
