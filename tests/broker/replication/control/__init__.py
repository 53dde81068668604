"""Tests of the controller, and of what operators ask of it."""
