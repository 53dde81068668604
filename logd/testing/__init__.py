"""Clusters for tests, benches and demonstrations, here and elsewhere: in memory, on loopback, in real processes.

The names below are fetched from where they live when they are first asked for: pytest loads the plugin in this package
for every test run of an environment that has logd, and most of them use none of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from logd.testing.kafka_brokers.broker import KafkaBroker, kafka
    from logd.testing.kafka_brokers.records import KafkaRecord
    from logd.testing.loopback import LoopbackCluster
    from logd.testing.memory.cluster import MemoryCluster, NotYet

__all__ = ["KafkaBroker", "KafkaRecord", "LoopbackCluster", "MemoryCluster", "NotYet", "kafka"]


def _home(name: str) -> object:
    """Return the module of a name. Raises AttributeError."""
    if name in ("KafkaBroker", "kafka"):
        from logd.testing.kafka_brokers import broker

        return broker
    if name == "KafkaRecord":
        from logd.testing.kafka_brokers import records

        return records
    if name == "LoopbackCluster":
        from logd.testing import loopback

        return loopback
    if name in ("MemoryCluster", "NotYet"):
        from logd.testing.memory import cluster

        return cluster
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __getattr__(name: str) -> object:
    value: object = getattr(_home(name), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
