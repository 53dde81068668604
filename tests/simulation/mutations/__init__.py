"""Code that is broken on purpose: the simulator has to notice each."""
