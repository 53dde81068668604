"""``logd dead-letters``: lists dead letters, and publishes them again."""
