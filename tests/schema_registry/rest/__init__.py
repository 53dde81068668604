"""Tests of logd.schema_registry.rest."""
