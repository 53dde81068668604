"""Real servers in their own processes, ready when ``start`` returns."""
