"""Tests of the commands about users, rules and quotas."""
