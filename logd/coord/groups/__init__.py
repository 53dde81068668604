"""Consumer groups: who reads which partitions, and how that is agreed on in the coordination tree."""
