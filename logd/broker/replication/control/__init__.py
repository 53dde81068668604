"""The controller, and what operators ask of it."""
