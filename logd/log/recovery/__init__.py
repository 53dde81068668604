"""Recovery after a crash, and what it goes by: checkpoint, flush mark, names and sizes of segments."""
