"""HTTP pages: health and metrics for monitoring, and the schema registry's REST interface beside them."""
