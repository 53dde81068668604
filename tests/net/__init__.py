"""Tests of the wires."""
