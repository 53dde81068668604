"""Tests of requests that produce."""
