"""Tests, laid out as the tree that they test."""

from hypothesis import HealthCheck, settings

# The duration of an example depends on the machine more than on the code: a busy machine must fail no test.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")
