"""Tests of the core of the clients."""
