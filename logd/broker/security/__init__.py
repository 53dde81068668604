"""Who a request comes from, and whether it may be served."""
