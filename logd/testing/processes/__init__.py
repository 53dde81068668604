"""Real servers in processes of their own, ready when ``start`` returns."""
