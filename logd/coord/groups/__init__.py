"""Consumer groups: assignment of partitions to consumers, agreed on in the coordination tree."""
