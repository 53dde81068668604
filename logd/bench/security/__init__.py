"""Benches of authentication, access rules and quotas."""
