"""Consumer groups over the coordination tree: assignment and rebalance (paper section 3.2)."""
