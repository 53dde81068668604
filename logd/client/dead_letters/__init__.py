"""Dead letters: messages that could not be handled, with where they came from and why, in a topic of their own."""
