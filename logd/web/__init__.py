"""Pages over HTTP for who watches a broker: its health and its figures."""
