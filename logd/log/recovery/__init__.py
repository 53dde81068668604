"""Recovery after a crash, and its sources: the checkpoint, the flush mark, the names and sizes of segments."""
