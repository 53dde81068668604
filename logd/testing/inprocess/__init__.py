"""A client of a coordination tree in the same process, over a link that a simulation can delay and cut."""
