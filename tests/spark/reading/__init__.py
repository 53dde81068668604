"""Tests of reading ranges of ids: their planning, sound and hostile logs, and lost messages."""
