"""Tests of the healing of replicas."""
