"""Tests of users and access rules."""
