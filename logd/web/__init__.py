"""HTTP pages for monitoring a broker: its health and its metrics."""
