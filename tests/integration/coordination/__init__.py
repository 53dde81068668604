"""Real coordination servers and clients of them."""
