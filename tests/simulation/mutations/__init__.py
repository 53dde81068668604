"""Code that is broken on purpose: the simulator, or a named test, has to find each mutation."""
