"""Tests of users, rights and quotas with real processes."""
