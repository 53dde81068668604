"""The fetches of a consumer: planned for each broker, kept for each partition."""
