"""Clusters for tests, benches and demonstrations, here and elsewhere: in memory, on loopback, in real processes."""

from __future__ import annotations

from logd.testing.loopback import LoopbackCluster
from logd.testing.memory.cluster import MemoryCluster, NotYet

__all__ = ["LoopbackCluster", "MemoryCluster", "NotYet"]
