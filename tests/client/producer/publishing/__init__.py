"""Tests of messages that are sent or published one at a time."""
