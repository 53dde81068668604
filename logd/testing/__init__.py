"""What tests, benches and demonstrations run, here and elsewhere: clusters in memory, on loopback, for real."""

from __future__ import annotations

from logd.testing.loopback import LoopbackCluster
from logd.testing.memory.cluster import MemoryCluster, NotYet

__all__ = ["LoopbackCluster", "MemoryCluster", "NotYet"]
