"""The systems themselves: one module each, with the way to start it and its clients."""
