"""Tests, laid out as the tree that they test."""

from hypothesis import HealthCheck, settings

# How long an example takes says something of the machine, not of the code: a busy one must fail no test by it.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
