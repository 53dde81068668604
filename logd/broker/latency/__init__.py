"""How long requests and flushes take."""
