"""Tests of the whole pipeline: live cluster, mirror, offline cluster, registry, audit and import."""
