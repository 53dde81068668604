"""Topics of a broker: the coordination tree against what is stored here, and how far that is known."""
