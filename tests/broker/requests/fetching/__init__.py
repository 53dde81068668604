"""Tests of fetch requests on the broker's side."""
